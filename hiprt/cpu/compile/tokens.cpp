#include "compile/tokens.h"

#include <algorithm>
#include <cctype>

namespace cpu {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

class Lexer {
 public:
  Lexer(const std::string &text, std::vector<std::string> *files) : s_(text), files_(files) {}

  std::vector<Token> run() {
    while (i_ < s_.size()) step();
    return std::move(out_);
  }

 private:
  char at(size_t k) const { return k < s_.size() ? s_[k] : '\0'; }

  void step() {
    const char c = s_[i_];
    if (c == '\n') {
      line_start_ = true;
      ++i_;
    } else if (std::isspace(static_cast<unsigned char>(c)) || c == '\\') {
      ++i_;
    } else if (c == '/' && (at(i_ + 1) == '/' || at(i_ + 1) == '*')) {
      comment();
    } else if (c == '#' && line_start_) {
      directive();
    } else {
      line_start_ = false;
      token();
    }
  }

  void comment() {
    const bool block = at(i_ + 1) == '*';
    const size_t end = block ? s_.find("*/", i_ + 2) : line_end(i_);
    i_ = end == std::string::npos ? s_.size() : end + (block ? 2 : 0);
  }

  // Returns the newline that ends the line; one after a backslash does not.
  size_t line_end(size_t from) const {
    size_t end = s_.find('\n', from);
    while (end != std::string::npos && end > 0 && s_[end - 1] == '\\') end = s_.find('\n', end + 1);
    return std::min(end, s_.size());
  }

  void directive() {
    const size_t end = line_end(i_), quote = s_.find('"', i_);
    const bool marker = std::isdigit(static_cast<unsigned char>(at(s_.find_first_not_of(' ', i_ + 1))));
    if (files_ && marker && quote < end) {
      const std::string name = s_.substr(quote + 1, s_.find('"', quote + 1) - quote - 1);
      if (std::find(files_->begin(), files_->end(), name) == files_->end()) files_->push_back(name);
    }
    i_ = end;
  }

  void token() {
    const size_t begin = i_;
    const char c = s_[i_];
    Token::Kind kind = Token::Symbol;
    if (std::isdigit(static_cast<unsigned char>(c))) {
      kind = Token::Number;
      while (is_word(at(i_)) || at(i_) == '.' || (at(i_) == '\'' && is_word(at(i_ + 1)))) ++i_;
    } else if (is_word(c)) {
      kind = Token::Word;
      while (is_word(at(i_))) ++i_;
    }
    const std::string word = s_.substr(begin, i_ - begin);
    const bool raw = at(i_) == '"' && !word.empty() && word.back() == 'R' && word.size() <= 3;
    const bool prefixed = kind == Token::Word && (word == "L" || word == "u" || word == "U" || word == "u8");
    if (raw) {
      kind = Token::String;
      raw_string();
    } else if ((begin == i_ || prefixed) && (at(i_) == '"' || at(i_) == '\'')) {
      kind = Token::String;
      quoted();
    } else if (begin == i_) {
      i_ += c == ':' && at(i_ + 1) == ':' ? 2 : 1;
    }
    out_.push_back({kind, s_.substr(begin, i_ - begin), begin});
  }

  void quoted() {
    const char quote = s_[i_++];
    while (i_ < s_.size() && s_[i_] != quote && s_[i_] != '\n') i_ += s_[i_] == '\\' ? 2 : 1;
    i_ = std::min(i_ + 1, s_.size());
  }

  void raw_string() {
    const size_t open = s_.find('(', i_);
    if (open == std::string::npos) return quoted();
    const std::string close = ")" + s_.substr(i_ + 1, open - i_ - 1) + "\"";
    const size_t end = s_.find(close, open);
    i_ = end == std::string::npos ? s_.size() : end + close.size();
  }

  const std::string &s_;
  std::vector<std::string> *files_;
  std::vector<Token> out_;
  size_t i_ = 0;
  bool line_start_ = true;
};

}  // namespace

std::vector<Token> tokenize(const std::string &text, std::vector<std::string> *files) { return Lexer(text, files).run(); }

size_t close_of(const std::vector<Token> &t, size_t open) {
  const std::string &left = t[open].text;
  const char *right = left == "(" ? ")" : left == "[" ? "]" : left == "<" ? ">" : "}";
  size_t depth = 0;
  for (size_t i = open; i < t.size(); ++i) {
    if (t[i].text == left) ++depth;
    else if (t[i].text == right && --depth == 0) return i;
    else if (left == "<" && (t[i].text == "(" || t[i].text == "[")) i = close_of(t, i);
    else if (left == "<" && (t[i].text == ";" || t[i].text == "{")) return t.size();
  }
  return t.size();
}

bool is_number(const std::string &text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos; }

}  // namespace cpu
