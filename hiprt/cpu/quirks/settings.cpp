// Turns quirks on as HIPRT_CPU_PROFILE and HIPRT_CPU_QUIRKS say, while the library is loaded.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "flags.h"
#include "quirks/profiles.h"
#include "quirks/quirks.h"

namespace cpu {
namespace {

// Returns how many letters to change, insert or remove to get from one name to the other.
size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

void refuse(const char *variable, const std::string &name, const std::vector<std::string> &known) {
  const auto nearer = [&](const std::string &a, const std::string &b) { return distance(name, a) < distance(name, b); };
  const std::string &nearest = *std::min_element(known.begin(), known.end(), nearer);
  std::fprintf(stderr, "hiprt cpu device: %s: '%s' is not known and ignored; did you mean '%s'?\n", variable,
               name.c_str(), nearest.c_str());
}

bool set_number(const std::string &name, const char *value) {
  if (name == "kernarg_limit") quirk_numbers.kernarg_limit = std::strtoull(value, nullptr, 10);
  else if (name == "Q") quirk_numbers.queues = std::max(1u, static_cast<uint32_t>(std::strtoul(value, nullptr, 10)));
  else if (name == "probability") quirk_numbers.probability = std::strtod(value, nullptr);
  else return false;
  return true;
}

// Obeys one item of HIPRT_CPU_QUIRKS: a name, or name=value.
void read_item(const std::string &item) {
  const size_t equals = item.find('=');
  const std::string name = item.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
  if (!value.empty() && set_number(name, value.c_str())) return;
  const auto found = std::find(std::begin(quirk_names), std::end(quirk_names), name);
  if (found != std::end(quirk_names)) {
    // memset_layout=header asks for the layout that the device has without the quirk.
    quirk_table[found - std::begin(quirk_names)] = !(name == "memset_layout" && value == "header");
    return;
  }
  std::vector<std::string> known(std::begin(quirk_names), std::end(quirk_names));
  known.insert(known.end(), {"kernarg_limit", "Q", "probability"});
  refuse("HIPRT_CPU_QUIRKS", name, known);
}

void read_profile(const std::string &name) {
  std::vector<std::string> known;
  for (const Profile &profile : profiles()) {
    known.emplace_back(profile.name);
    if (name != profile.name) continue;
    for (const std::vector<Quirk> *group : profile.groups) {
      for (const Quirk q : *group) quirk_table[static_cast<size_t>(q)] = true;
    }
    return;
  }
  refuse("HIPRT_CPU_PROFILE", name, known);
}

bool read() {
  const std::string profile = profile_flag();
  if (!profile.empty()) read_profile(profile);
  std::string items = quirks_flag();
  items.erase(std::remove(items.begin(), items.end(), ' '), items.end());
  for (size_t start = 0; start < items.size();) {
    const size_t end = std::min(items.find(',', start), items.size());
    if (end > start) read_item(items.substr(start, end - start));
    start = end + 1;
  }
  return true;
}

[[maybe_unused]] const bool is_read = read();

}  // namespace
}  // namespace cpu
