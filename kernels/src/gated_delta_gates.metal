// g = exp(-exp(a_log) * softplus(a + dt_bias)) and beta = sigmoid(b), in float32; one head of one step a thread.
uint i = thread_position_in_grid.x;
if (i >= size) return;
uint head = i % heads;
float step = float(a[i]) + float(dt_bias[head]);
float soft = step > 20.0f ? step : max(step, 0.0f) + log1p_of(exp(-fabs(step)));
g[i] = exp(-exp(a_log[head]) * soft);
beta[i] = 1.0f / (1.0f + exp(-float(b[i])));
