#include "compile/kernel_list.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "compile/signature.h"
#include "compile/tokens.h"

namespace cpu {
namespace {

using Tokens = std::vector<Token>;

struct Edit {
  size_t offset;
  std::string text;
};

bool is_one_of(const std::string &word, std::initializer_list<const char *> all) {
  return std::any_of(all.begin(), all.end(), [&](const char *one) { return word == one; });
}

// These say something of a type and are none.
bool is_qualifier(const std::string &word) {
  return is_one_of(word, {"const", "volatile", "struct", "class", "union", "enum", "typename", "__restrict__", "__restrict", "register"});
}

bool is_type_word(const std::string &word) {
  return is_one_of(word, {"void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "auto"}) ||
         is_qualifier(word);
}

struct Range {
  size_t begin, end;
};

// Returns the parts between the commas of a list.
std::vector<Range> parts_of(const Tokens &t, Range list) {
  std::vector<Range> out;
  size_t begin = list.begin;
  for (size_t i = list.begin; i < list.end; ++i) {
    if (is_one_of(t[i].text, {"(", "[", "{", "<"})) i = std::min(close_of(t, i), list.end);
    if (i >= list.end || t[i].text != ",") continue;
    out.push_back({begin, i});
    begin = i + 1;
  }
  if (begin < list.end) out.push_back({begin, list.end});
  return out;
}

// Leaves out the default argument.
Range declared(const Tokens &t, Range part) {
  for (size_t i = part.begin; i < part.end; ++i) {
    if (is_one_of(t[i].text, {"(", "[", "{", "<"})) i = close_of(t, i);
    else if (t[i].text == "=") return {part.begin, i};
  }
  return part;
}

bool is_pack(const Tokens &t, Range part) {
  for (size_t i = part.begin; i + 2 < part.end; ++i)
    if (t[i].text == "." && t[i + 1].text == "." && t[i + 2].text == ".") return true;
  return false;
}

// Returns the `*` of a pointer to a function or to an array, behind which its name stands; the part's end if there is none.
size_t declarator_of(const Tokens &t, Range part) {
  for (size_t i = part.begin; i + 1 < part.end; ++i) {
    if (t[i].text == "<") i = close_of(t, i);
    else if (t[i].text == "(" && is_one_of(t[i + 1].text, {"*", "&"})) return i + 1;
  }
  return part.end;
}

// Returns the index of a parameter's name; the part's end if it has none. A template's parameter may have `class` for its type.
size_t name_of(const Tokens &t, Range part, bool is_template) {
  const size_t declarator = declarator_of(t, part);
  if (declarator < part.end) return t[declarator + 1].kind == Token::Word ? declarator + 1 : part.end;
  size_t last = part.end;
  while (last > part.begin && t[last - 1].text == "]") {
    while (last > part.begin && t[last - 1].text != "[") --last;
    if (last > part.begin) --last;
  }
  if (last <= part.begin + 1) return part.end;
  const Token &word = t[last - 1];
  if (word.kind != Token::Word || is_type_word(word.text) || t[last - 2].text == "::") return part.end;
  const bool has_type = std::any_of(t.begin() + long(part.begin), t.begin() + long(last - 1),
                                    [&](const Token &token) { return is_template || !is_qualifier(token.text); });
  return has_type ? last - 1 : part.end;
}

// Returns the name of a parameter, which an edit gives it if it has none.
std::string named(const Tokens &t, Range part, const std::string &fallback, bool is_template, std::vector<Edit> *edits) {
  const Range own = declared(t, part);
  const size_t at = name_of(t, own, is_template);
  if (at < own.end) return t[at].text;
  const size_t declarator = declarator_of(t, own);
  const Token &last = t[declarator < own.end ? declarator : own.end - 1];
  edits->push_back({last.offset + last.text.size(), " " + fallback});
  return fallback;
}

// Returns the function's type, made of the types of its parameters.
std::string type_of(const Tokens &t, const Signature &s, std::vector<Edit> *edits) {
  std::string out = "void (*)(";
  if (s.parameters != "void") {
    const std::vector<Range> parts = parts_of(t, {s.open + 1, s.close});
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string name = named(t, parts[i], "__hiprt_p" + std::to_string(i), false, edits);
      out += (i ? ", decltype(" : "decltype(") + name + ")" + (is_pack(t, declared(t, parts[i])) ? "..." : "");
    }
  }
  return out + ")";
}

// Returns the arguments that name this instance of a template, whose parameters stand before the kernel at `i`.
std::string arguments_of(const Tokens &t, size_t i, std::vector<Edit> *edits) {
  size_t start = i;
  while (start > 0 && !is_one_of(t[start - 1].text, {";", "{", "}"})) --start;
  if (t[start].text != "template" || t[start + 1].text != "<" || t[start + 2].text == ">") return "";
  const std::vector<Range> parts = parts_of(t, {start + 2, close_of(t, start + 1)});
  std::string out = "<";
  for (size_t k = 0; k < parts.size(); ++k) {
    const std::string name = named(t, parts[k], "__hiprt_t" + std::to_string(k), true, edits);
    out += (k ? ", " : "") + name + (is_pack(t, declared(t, parts[k])) ? "..." : "");
  }
  return out + ">";
}

}  // namespace

std::string list_kernels(const std::string &text, bool indices) {
  const Tokens t = tokenize(text, nullptr);
  std::vector<Edit> edits;
  for (size_t i = 0; i < t.size(); ++i) {
    if (t[i].text != "__global__") continue;
    Signature s = read_signature(t, i + 1);
    for (size_t k = i; k > 0 && !is_one_of(t[k - 1].text, {";", "{", "}", ">"}); --k)
      if (t[k - 1].text == "__launch_bounds__") read_bounds(t, k, &s);
    if (!s.body) continue;
    const std::string arguments = s.name.find('<') == std::string::npos ? arguments_of(t, i, &edits) : "";
    const std::string type = type_of(t, s, &edits), bound = s.bounds.empty() ? "1024" : "unsigned(" + s.bounds + ")";
    edits.push_back({t[s.body].offset + 1, "(void)&__hiprt_listing<" + type + ", &" + s.name + arguments + ", " + bound + ">::listed;" +
                                               (indices ? " __hiprt_indices " : " ")});
    i = s.body;
  }
  std::string out;
  size_t copied = 0;
  for (const Edit &edit : edits) {
    out += text.substr(copied, edit.offset - copied) + edit.text;
    copied = edit.offset;
  }
  return out + text.substr(copied);
}

}  // namespace cpu
