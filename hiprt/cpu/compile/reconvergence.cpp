#include "compile/reconvergence.h"

#include <algorithm>
#include <utility>

#include "compile/tokens.h"

namespace cpu {
namespace {

using Tokens = std::vector<Token>;
using Names = std::set<std::string>;

const std::string kLoop = "for (__hiprt_way __hiprt_l(__COUNTER__); __hiprt_l.once();) ";
const std::string kNext = "(void)__hiprt_l.next()";
const std::string kCall = "({ __hiprt_way __hiprt_c(__COUNTER__); ", kEnd = "; })";
// The step around a call. The call's arguments are evaluated before it.
const std::string kBody = "__hiprt_way __hiprt_f(~0u);";

bool is_one_of(const std::string &word, const Names &names) { return names.count(word) != 0; }

bool begins(const std::string &word, const char *prefix) { return word.rfind(prefix, 0) == 0; }

// HIP's warp operations are macros that number their places; those of the Metal dialect and of tiles are functions of
// ours.
bool is_operation(const std::string &word) {
  static const Names all = {"__activemask", "__syncwarp"};
  static const char *const prefixes[] = {"__shfl", "__ballot", "__any", "__all", "__match_any"};
  return is_one_of(word, all) || std::any_of(std::begin(prefixes), std::end(prefixes), [&](const char *p) { return begins(word, p); });
}

bool is_function_of_ours(const std::string &word) {
  return begins(word, "simd_") || begins(word, "quad_") || begins(word, "simdgroup_");
}

bool is_member_of_tile(const std::string &word) {
  static const Names all = {"shfl", "shfl_up", "shfl_down", "shfl_xor", "ballot", "any", "all", "sync"};
  return is_one_of(word, all);
}

bool is_keyword(const std::string &word) {
  static const Names all = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype", "alignof"};
  return is_one_of(word, all);
}

struct Range {
  size_t begin, end;  // positions of tokens, or of characters
};

class Reader {
 public:
  Reader(const Tokens &tokens, const Meetings &meetings) : t_(tokens), known_(meetings) {}

  const std::string &at(size_t i) const {
    static const std::string none;
    return i < t_.size() ? t_[i].text : none;
  }

  bool is_member(size_t i) const { return i > 0 && (at(i - 1) == "." || is_arrow(i)); }

  // Returns whether the word at `i` calls a function in which lanes meet.
  bool is_call(size_t i) const {
    if (t_[i].kind != Token::Word || !opening(i)) return false;
    const std::string &word = at(i);
    return is_function_of_ours(word) || is_one_of(word, known_.functions) || (is_member(i) && is_member_of_tile(word));
  }

  bool meets(Range r) const {
    for (size_t i = r.begin; i < r.end && i < t_.size(); ++i)
      if (is_call(i) || is_operation(at(i)) || is_one_of(at(i), known_.macros)) return true;
    return false;
  }

  // Returns the opening parenthesis of a call of the name at `i`, behind template arguments; 0 if it is not called.
  size_t opening(size_t i) const {
    const size_t open = at(i + 1) == "<" ? close_of(t_, i + 1) + 1 : i + 1;
    return at(open) == "(" ? open : 0;
  }

  // Returns the opening brace of the function that is defined at the name `i`; 0 if none is.
  size_t definition(size_t i) const {
    if (t_[i].kind != Token::Word || is_keyword(at(i)) || at(i + 1) != "(") return 0;
    for (size_t k = close_of(t_, i + 1) + 1; k < t_.size(); ++k) {
      if (at(k) == "{") return k;
      if (at(k) == "(" || at(k) == "[") k = close_of(t_, k);
      else if (t_[k].kind != Token::Word && at(k) != "-" && at(k) != ">" && at(k) != "::" && at(k) != "*" && at(k) != "&") return 0;
      else if (is_keyword(at(k))) return 0;
    }
    return 0;
  }

  // Returns the token behind the statement at `i`.
  size_t end_of_statement(size_t i) const {
    if (at(i) == "{") return close_of(t_, i) + 1;
    if (at(i) == "do") return behind(behind_condition(end_of_statement(i + 1)), ";");
    if (at(i) == "if" || at(i) == "for" || at(i) == "while" || at(i) == "switch") {
      const size_t end = end_of_statement(behind_condition(i));
      return at(i) == "if" && at(end) == "else" ? end_of_statement(end + 1) : end;
    }
    for (; i < t_.size() && at(i) != ";" && at(i) != "}"; ++i)
      if (at(i) == "(" || at(i) == "[" || at(i) == "{") i = close_of(t_, i);
    return i + 1;
  }

  // Returns the token behind the parentheses of the statement at `i`.
  size_t behind_condition(size_t i) const {
    while (i < t_.size() && at(i) != "(" && at(i) != ";" && at(i) != "{") ++i;
    return at(i) == "(" ? close_of(t_, i) + 1 : i;
  }

  // Returns the first token of the expression whose last name is at `i`; the object that it is a member of belongs to
  // it.
  size_t expression(size_t i) const {
    for (;;) {
      if (at(i - 1) == "template") --i;
      else if (at(i - 1) == "::") i = primary(i - 1);
      else if (at(i - 1) == ".") i = primary(i - 1);
      else if (is_arrow(i)) i = primary(i - 2);
      else return i;
    }
  }

 private:
  bool is_arrow(size_t i) const { return i > 1 && at(i - 1) == ">" && at(i - 2) == "-" && t_[i - 1].offset == t_[i - 2].offset + 1; }
  size_t behind(size_t i, const char *symbol) const { return at(i) == symbol ? i + 1 : i; }

  size_t opened(size_t close) const {
    const std::string &right = at(close), left = right == ")" ? "(" : right == "]" ? "[" : "<";
    for (size_t i = close, depth = 0;; --i) {
      if (at(i) == right) ++depth;
      else if (at(i) == left && --depth == 0) return i;
      if (i == 0) return close;
    }
  }

  // Returns the first token of a name, call or element that ends before token `end`.
  size_t primary(size_t end) const {
    size_t i = end;
    while (i > 1 && (at(i - 1) == ")" || at(i - 1) == "]" || at(i - 1) == ">")) i = opened(i - 1);
    return i > 0 && t_[i - 1].kind == Token::Word ? i - 1 : i;
  }

  const Tokens &t_;
  const Meetings &known_;
};

// Collects the edits of one piece of text, which begins at `base`.
class Editor {
 public:
  struct Edit {
    size_t offset, removed;
    std::string text;
  };

  Editor(const Tokens &tokens, const Meetings &meetings, size_t base, std::vector<Edit> *out)
      : t_(tokens), read_(tokens, meetings), base_(base), out_(*out) {}

  void body(Range r) {
    for (size_t i = r.begin; i < r.end; ++i) {
      const std::string &word = t_[i].text;
      if (word == "for" || word == "while" || word == "do") loop(i);
      else if (read_.is_call(i)) call(i);
    }
  }

  void put(size_t token, const std::string &text, size_t removed = 0) {
    if (token < t_.size()) out_.push_back({base_ + t_[token].offset, removed, text});
  }

 private:
  void call(size_t i) {
    static const Names before = {"return", "else", "do", "case", "template"};
    if (i > 0 && t_[i - 1].kind == Token::Word && !is_one_of(t_[i - 1].text, before)) return;  // a declaration
    const size_t close = close_of(t_, read_.opening(i));
    if (close >= t_.size()) return;
    put(read_.expression(i), kCall);
    out_.push_back({base_ + t_[close].offset + 1, 0, kEnd});
  }

  void loop(size_t i) {
    if (std::find(tails_.begin(), tails_.end(), i) != tails_.end()) return;
    const std::string &word = t_[i].text;
    const bool is_do = word == "do";
    const size_t tail = is_do ? read_.end_of_statement(i + 1) : i, open = tail + 1;
    if (is_do) tails_.push_back(tail);
    if (read_.at(open) != "(" || !read_.meets({i, read_.end_of_statement(i)})) return;
    const size_t close = close_of(t_, open);
    put(i, kLoop);
    if (is_do) {
      put(open + 1, "(");
      put(close, ") && __hiprt_l.next()");
    } else if (word == "while") {
      put(i, "for", 5);
      put(open + 1, "; ");
      put(close, "; " + kNext);
    } else {
      turns(open, close);
    }
  }

  // Counts the turns of a `for`: in its third part, or before its statement if it runs over a range.
  void turns(size_t open, size_t close) {
    size_t parts = 0, last = open;
    for (size_t k = open + 1; k < close; ++k) {
      if (t_[k].text == "(" || t_[k].text == "[" || t_[k].text == "{") k = close_of(t_, k);
      else if (t_[k].text == ";") ++parts, last = k;
    }
    if (parts == 2) put(last + 1, kNext + (last + 1 < close ? ", " : ""));
    else put(close + 1, "if (!__hiprt_l.next()) {} else ");
  }

  const Tokens &t_;
  const Reader read_;
  const size_t base_;
  std::vector<Edit> &out_;
  std::vector<size_t> tails_;  // the `while` that ends each `do`
};

// Returns the ranges of a preprocessed text that come from system headers, ours among them.
std::vector<Range> system_headers(const std::string &text) {
  std::vector<Range> out;
  bool inside = false;
  for (size_t at = text.compare(0, 2, "# ") == 0 ? 0 : text.find("\n# "); at != std::string::npos; at = text.find("\n# ", at + 1)) {
    const size_t end = std::min(text.find('\n', at + 1), text.size()), quote = text.rfind('"', end);
    if (quote == std::string::npos || quote < at) continue;
    const bool is_system = text.substr(quote, end - quote).find('3') != std::string::npos;
    if (inside) out.back().end = at;
    if (is_system) out.push_back({at, text.size()});
    inside = is_system;
  }
  return out;
}

// Returns the ranges of a text that are not the user's: line directives place them in files of ours or of the system.
std::vector<Range> ours(const std::string &text) {
  std::vector<Range> out = system_headers(text);
  if (!out.empty()) return out;
  static const std::string mark = "#line 1 \"";
  for (size_t at = text.find(mark); at != std::string::npos;) {
    const size_t next = text.find(mark, at + 1);
    if (text.compare(at + mark.size(), 6, "hiprt/") == 0) out.push_back({at, std::min(next, text.size())});
    at = next;
  }
  return out;
}

bool is_inside(const std::vector<Range> &ranges, size_t offset) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), offset, [](size_t at, Range r) { return at < r.begin; });
  return after != ranges.begin() && offset < (after - 1)->end;
}

Tokens own_tokens(const std::string &text) {
  Tokens all = tokenize(text, nullptr);
  const std::vector<Range> passed = ours(text);
  all.erase(std::remove_if(all.begin(), all.end(), [&](const Token &t) { return is_inside(passed, t.offset); }), all.end());
  return all;
}

struct Macro {
  std::string name, text;
  size_t begin;  // where the text that it stands for begins
};

std::vector<Macro> macros(const std::string &text) {
  std::vector<Macro> out;
  const std::vector<Range> passed = ours(text);
  for (size_t at = text.find("#define "); at != std::string::npos; at = text.find("#define ", at + 1)) {
    size_t end = text.find('\n', at);
    while (end != std::string::npos && text[end - 1] == '\\') end = text.find('\n', end + 1);
    const size_t name = text.find_first_not_of(' ', at + 8), stop = std::min(end, text.size());
    size_t begin = text.find_first_of(" (\n", name);
    if (begin < stop && text[begin] == '(') begin = text.find(')', begin) + 1;
    if (begin >= stop || is_inside(passed, at)) continue;
    out.push_back({text.substr(name, text.find_first_of(" (\n", name) - name), text.substr(begin, stop - begin), begin});
  }
  return out;
}

}  // namespace

Meetings find_meetings(const std::vector<std::string> &texts) {
  Meetings found;
  std::vector<Tokens> all;
  std::vector<std::pair<std::string, Tokens>> stands_for;
  for (const std::string &text : texts) {
    all.push_back(own_tokens(text));
    for (const Macro &macro : macros(text)) stands_for.emplace_back(macro.name, tokenize(macro.text, nullptr));
  }
  for (size_t before = 1, now = 0; before != now;) {
    before = now;
    for (const auto &[name, tokens] : stands_for)
      if (Reader(tokens, found).meets({0, tokens.size()})) found.macros.insert(name);
    for (const Tokens &tokens : all) {
      const Reader read(tokens, found);
      for (size_t i = 0; i < tokens.size(); ++i) {
        const size_t open = read.definition(i);
        if (open && read.meets({open, close_of(tokens, open)})) found.functions.insert(tokens[i].text);
      }
    }
    now = found.functions.size() + found.macros.size();
  }
  return found;
}

std::string insert_steps(const std::string &text, const Meetings &meetings) {
  std::vector<Editor::Edit> edits;
  const Tokens tokens = own_tokens(text);
  const Reader read(tokens, meetings);
  Editor editor(tokens, meetings, 0, &edits);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t open = read.definition(i);
    if (!open || !is_one_of(tokens[i].text, meetings.functions)) continue;
    const size_t close = std::min(close_of(tokens, open), tokens.size());
    editor.put(open + 1, kBody);
    editor.body({open, close});
    i = close;
  }
  for (const Macro &macro : macros(text)) {
    const Tokens inside = tokenize(macro.text, nullptr);
    Editor(inside, meetings, macro.begin, &edits).body({0, inside.size()});
  }
  // The end of an expression comes before text that is put behind the expression.
  std::stable_sort(edits.begin(), edits.end(), [](const auto &a, const auto &b) {
    return a.offset != b.offset ? a.offset < b.offset : a.text == kEnd && b.text != kEnd;
  });
  std::string out;
  size_t copied = 0;
  for (const Editor::Edit &edit : edits) {
    out += text.substr(copied, edit.offset - copied) + edit.text;
    copied = edit.offset + edit.removed;
  }
  return out + text.substr(copied);
}

}  // namespace cpu
