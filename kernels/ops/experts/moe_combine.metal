// out[t] = sum over k of weights[t][k] * y[t][k], and with a shared expert its output too, opened by sigmoid(gate[t]).
wait_for_inputs();
begin_next();
uint i = thread_position_in_grid.x;
uint token = i / width;
uint column = i % width;
if (i >= size) return;
float sum = 0.0f;
for (uint k = 0; k < chosen; k++) {
  sum = mad(float(weights[size_t(token) * chosen + k]), float(y[(size_t(token) * chosen + k) * width + column]), sum);
}
if (is_shared) sum = mad(1.0f / (1.0f + exp(-float(gate[token]))), float(shared[i]), sum);
out[i] = T(sum);
