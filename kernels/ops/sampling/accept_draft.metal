// Takes the guesses that are what was chosen in their places, and the token that was chosen behind them; moves the step block
// there. step: token, position, prompt length, end. taken: for each of the last `slots` steps how many tokens it took, then these.
const int place = step[1], room = place < 0 ? 0 : max(int(capacity) - 1 - place, 0);
int count = 1;
while (count <= int(drafts) && chosen[count - 1] == draft[count]) count++;
count = min(count, room);
device int* row = taken + (uint(steps[0]) % slots) * (drafts + 2);
row[0] = count;
for (int i = 0; i < count; i++) {
  row[1 + i] = chosen[i];
  tokens[place + 1 + i] = chosen[i];
}
if (count > 0) {
  step[0] = chosen[count - 1];
  step[1] = place + count;
}
steps[0] = int(uint(steps[0]) + 1u);
