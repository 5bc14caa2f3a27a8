// g = exp(-exp(a_log) * softplus(a + dt_bias)) and beta = sigmoid(b), in float32. A thread takes one head of one step.
uint i = thread_position_in_grid.x;
if (i >= size) return;
uint head = i % heads;
g[i] = decay_of(float(a[i]), float(dt_bias[head]), exp(a_log[head]));
beta[i] = sigmoid_of(float(b[i]));
