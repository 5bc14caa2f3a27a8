#include "compile/scanner.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>

#include "compile/signature.h"
#include "compile/tokens.h"

namespace cpu {
namespace {

// What an open `{` belongs to.
struct Scope {
  enum Kind { Namespace, Linkage, Class, Block } kind;
  std::string name;
  bool is_c = false;  // declared with extern "C", and so is all that is declared inside
};

class Scanner {
 public:
  explicit Scanner(const std::vector<Token> &tokens) : t_(tokens) {}

  void run(Scan *out) {
    for (size_t i = 0; i < t_.size(); ++i) {
      const std::string &word = t_[i].text;
      if (word == "__global__" && !inside(Scope::Class) && !inside(Scope::Block)) {
        kernel(i, out);
      } else if (word == "__shared__") {
        shared(i, out);
      } else if (word == "{") {
        open(i);
      } else if (word == "}") {
        if (!scopes_.empty()) scopes_.pop_back();
        start_ = i + 1;
      } else if (word == ";") {
        start_ = i + 1;
      }
    }
  }

 private:
  bool inside(Scope::Kind kind) const {
    return std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope &s) { return s.kind == kind; });
  }

  std::string scope_name() const {
    std::string out;
    for (const Scope &s : scopes_)
      if (s.kind == Scope::Namespace && !s.name.empty()) out += (out.empty() ? "" : "::") + s.name;
    return out;
  }

  // Notes what the brace at `i` opens, judged by the tokens of its declaration.
  void open(size_t i) {
    Scope scope{Scope::Block, "", false};
    for (size_t k = start_; k < i; ++k) {
      const std::string &word = t_[k].text;
      if (word == "(" || word == "=") break;
      if (word == "namespace") {
        scope.kind = Scope::Namespace;
        for (size_t n = k + 1; n < i; ++n)
          if (t_[n].text == "[" || (is_group_word(t_[n].text) && n + 1 < i)) n = close_of(t_, t_[n].text == "[" ? n : n + 1);
          else if (t_[n].text != "inline") scope.name += t_[n].text;
        break;
      }
      if (word == "extern" && k + 1 < i && t_[k + 1].kind == Token::String) {
        scope.is_c = true;
        if (k + 2 == i) scope.kind = Scope::Linkage;
      }
      if (word == "struct" || word == "class" || word == "union" || word == "enum") scope.kind = Scope::Class;
      if (word == "<") k = std::min(close_of(t_, k), i);
    }
    scopes_.push_back(scope);
    start_ = i + 1;
  }

  // `template <...>` makes no kernel until an instance is named; `template <>` and `template void k<int>(...)` do.
  bool is_bare_template(size_t i) const {
    for (size_t k = start_; k + 1 < i; ++k)
      if (t_[k].text == "template") return t_[k + 1].text == "<" && k + 2 < t_.size() && t_[k + 2].text != ">";
    return false;
  }

  bool is_instantiation(size_t i) const {
    for (size_t k = start_; k < i; ++k)
      if (t_[k].text == "template") return t_[k + 1].text != "<";
    return false;
  }

  void kernel(size_t i, Scan *out) {
    Signature s = read_signature(t_, i + 1);
    for (size_t k = start_; k < i; ++k)
      if (t_[k].text == "__launch_bounds__" && k + 1 < i) read_bounds(t_, k + 1, &s);
    if (!s.found || is_bare_template(i) || !(s.body || is_instantiation(i))) return;
    const std::string scope = scope_name();
    out->kernels.push_back({"::" + (scope.empty() ? "" : scope + "::") + s.name, s.parameters, s.bounds, scope});
  }

  // Notes the symbols that the names in `extern __shared__ T a[], b[];` will have.
  void shared(size_t i, Scan *out) {
    size_t begin = i;
    while (begin > 0 && t_[begin - 1].text != ";" && t_[begin - 1].text != "{" && t_[begin - 1].text != "}") --begin;
    bool is_extern = false, plain = false;
    for (size_t k = begin; k < t_.size() && t_[k].text != ";"; ++k) {
      if (t_[k].text == "(") k = close_of(t_, k);
      else if (t_[k].text == "extern") is_extern = true, plain |= k + 1 < t_.size() && t_[k + 1].kind == Token::String;
      else if (k > i && t_[k].kind == Token::Word && k + 2 < t_.size() && t_[k + 1].text == "[" && t_[k + 2].text == "]")
        if (is_extern) add_shared(t_[k].text, plain, out);
    }
  }

  void add_shared(const std::string &name, bool plain, Scan *out) const {
    std::string symbol;
    for (const Scope &s : scopes_) {
      plain |= s.is_c;
      for (size_t at = 0; s.kind == Scope::Namespace && at < s.name.size();) {
        const size_t end = std::min(s.name.find("::", at), s.name.size());
        symbol += std::to_string(end - at) + s.name.substr(at, end - at);
        at = end + 2;
      }
    }
    symbol = plain || symbol.empty() ? name : "_ZN" + symbol + std::to_string(name.size()) + name + "E";
    std::vector<std::string> &all = out->dynamic_shared;
    if (std::find(all.begin(), all.end(), symbol) == all.end()) all.push_back(symbol);
  }

  const std::vector<Token> &t_;
  std::vector<Scope> scopes_;
  size_t start_ = 0;  // first token of the declaration being read
};

}  // namespace

Scan scan_preprocessed(const std::string &text) {
  Scan out;
  const std::vector<Token> tokens = tokenize(text, &out.files);
  Scanner(tokens).run(&out);
  return out;
}

std::string insert_local_indices(const std::string &text) {
  const std::vector<Token> tokens = tokenize(text, nullptr);
  std::string out;
  size_t copied = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].text != "__global__") continue;
    const Signature s = read_signature(tokens, i + 1);
    if (!s.body) continue;
    const size_t brace = tokens[s.body].offset + 1;
    out += text.substr(copied, brace - copied) + "__hiprt_local_index __hiprt_at;";
    copied = brace;
    i = s.body;
  }
  return out + text.substr(copied);
}

}  // namespace cpu
