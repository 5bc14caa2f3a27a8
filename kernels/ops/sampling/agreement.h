// Texts that agree.
namespace metal {

// How many tokens in front of two places of a text are the same, the places themselves included; `most` at most.
inline int agreement(const device int* tokens, int one, int other, int most) {
  int length = 0;
  while (length < most && length <= one && tokens[one - length] == tokens[other - length]) length++;
  return length;
}

}  // namespace metal
