#include "compile/signature.h"

#include <algorithm>

namespace cpu {
namespace {

// Returns the start of the qualified name whose final identifier is token `last`.
size_t name_begin(const std::vector<Token> &t, size_t last) {
  size_t i = last;
  while (i >= 2 && t[i - 1].text == "::" && t[i - 2].kind == Token::Word) i -= 2;
  return i;
}

}  // namespace

std::string join(const std::vector<Token> &t, size_t begin, size_t end) {
  std::string out;
  for (size_t i = begin; i < end && i < t.size(); ++i) out += (out.empty() ? "" : " ") + t[i].text;
  return out;
}

bool is_group_word(const std::string &word) {
  return word == "__attribute__" || word == "__launch_bounds__" || word == "alignas" || word == "decltype" ||
         word == "noexcept" || word == "__declspec";
}

void read_bounds(const std::vector<Token> &t, size_t open, Signature *s) {
  const size_t close = close_of(t, open);
  size_t i = open + 1;
  while (i < close && t[i].text != ",") i = t[i].text == "(" ? close_of(t, i) + 1 : i + 1;
  s->bounds = join(t, open + 1, std::min(i, close));
}

Signature read_signature(const std::vector<Token> &t, size_t i) {
  Signature s;
  for (; i < t.size(); ++i) {
    const std::string &word = t[i].text;
    const bool before_group = i + 1 < t.size() && t[i + 1].text == "(";
    if (word == "{" || word == ";" || word == "}") break;
    if (word == "__launch_bounds__" && before_group) read_bounds(t, i + 1, &s);
    if (word == "[") {
      i = close_of(t, i);
    } else if (is_group_word(word) && before_group) {
      i = close_of(t, i + 1);
    } else if (t[i].kind == Token::Word && !s.found) {
      size_t open = i + 1;
      if (open < t.size() && t[open].text == "<") open = close_of(t, open) + 1;
      if (open >= t.size() || t[open].text != "(") continue;
      const size_t close = close_of(t, open);
      s.name = join(t, name_begin(t, i), open);
      s.parameters = join(t, open + 1, close);
      s.open = open;
      s.close = close;
      s.found = true;
      i = close;
    }
  }
  s.end = i;
  if (s.found && i < t.size() && t[i].text == "{") s.body = i;
  return s;
}

}  // namespace cpu
