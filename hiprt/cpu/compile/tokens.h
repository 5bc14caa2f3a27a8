// C++ tokens, as far as finding declarations needs them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cpu {

struct Token {
  enum Kind { Word, Number, String, Symbol } kind;
  std::string text;
  size_t offset;  // in the text
};

// Comments and preprocessor directives are passed over. The files that line markers name are added to `files`, if not null.
std::vector<Token> tokenize(const std::string &text, std::vector<std::string> *files);

// Index of the token that closes the group opened at `open`, or the number of tokens.
size_t close_of(const std::vector<Token> &tokens, size_t open);

}  // namespace cpu
