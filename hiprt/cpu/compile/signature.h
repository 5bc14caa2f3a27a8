// A kernel's declaration, as far as it is read from its tokens.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compile/tokens.h"

namespace cpu {

struct Signature {
  std::string name, parameters, bounds;
  size_t open = 0, close = 0;  // indices of the parentheses around the parameters
  size_t body = 0;             // index of `{`; 0 if there is no body
  size_t end = 0;              // index after the signature: `{` or `;`
  bool found = false;
};

// Reads the declaration that goes on at token `i`, just after `__global__`.
Signature read_signature(const std::vector<Token> &t, size_t i);
// Reads the first argument of __launch_bounds__, whose parenthesis opens at token `open`.
void read_bounds(const std::vector<Token> &t, size_t open, Signature *s);

// Returns whether a word is followed by a group in parentheses that belongs to it and is no list of parameters.
bool is_group_word(const std::string &word);

// Returns tokens as text, with a space between each two.
std::string join(const std::vector<Token> &t, size_t begin, size_t end);

}  // namespace cpu
