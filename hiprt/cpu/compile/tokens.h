// C++ tokens, told apart as far as finding declarations needs it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cpu {

struct Token {
  enum Kind { Word, Number, String, Symbol } kind;
  std::string text;
  size_t offset;  // where it begins in the text
};

// Returns the tokens of a text, without comments and preprocessor directives. Files that line markers name are added to
// `files`, unless it is null.
std::vector<Token> tokenize(const std::string &text, std::vector<std::string> *files);

// Returns the index of the token that closes the group opened at `open`, or the number of tokens if none does.
size_t close_of(const std::vector<Token> &tokens, size_t open);

// Returns whether a text is a whole number in decimal digits.
bool is_number(const std::string &text);

}  // namespace cpu
