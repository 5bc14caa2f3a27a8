#include "graph/dot.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "graph/graph.h"
#include "graph/graph_memory.h"
#include "graph/node.h"
#include "runtime/copy.h"
#include "runtime/launch.h"

namespace cpu {
namespace {

constexpr const char *kBreak = "\\n";

bool wants(unsigned flags, unsigned part) { return flags & (part | hipGraphDebugDotFlagsVerbose); }

std::string escaped(const std::string &text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::ostream &operator<<(std::ostream &out, const dim3 &d) { return out << d.x << 'x' << d.y << 'x' << d.z; }

// Prints up to eight bytes as one number, longer values byte by byte.
void print_value(const std::byte *bytes, size_t size, std::ostream &out) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr size_t kShown = 16;
  out << "0x";
  const bool number = size <= 8;
  const size_t shown = std::min(size, kShown);
  for (size_t i = 0; i < shown; ++i) {
    const auto byte = std::to_integer<unsigned>(bytes[number ? size - 1 - i : i]);
    out << kDigits[byte >> 4] << kDigits[byte & 15];
  }
  if (shown < size) out << "...";
}

void print_kernel(const Node &node, unsigned flags, std::ostream &out) {
  auto &work = static_cast<KernelWork &>(*node.action.work);
  const Kernel &kernel = *work.function.kernel;
  out << escaped(kernel.name) << kBreak << "grid " << work.geometry.grid << " block " << work.geometry.block
      << " shared " << work.geometry.shared;
  if (wants(flags, hipGraphDebugDotFlagsKernelNodeParams)) {
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      out << kBreak << "arg " << i << " (" << kernel.params[i].size << " B) ";
      print_value(static_cast<const std::byte *>(work.argument(i)), kernel.params[i].size, out);
    }
  }
  if (!wants(flags, hipGraphDebugDotFlagsKernelNodeAttributes)) return;
  for (const auto &[id, value] : node.attributes) {
    out << kBreak << "attribute " << id;
    if (id == hipLaunchAttributePriority) out << " = " << value.priority;
    if (id == hipLaunchAttributeCooperative) out << " = " << value.cooperative;
  }
}

void print_copy(const Node &node, unsigned flags, std::ostream &out) {
  const auto &work = static_cast<const CopyWork &>(*node.action.work);
  out << "memcpy " << work.width << 'x' << work.height << 'x' << work.depth << " B";
  if (!wants(flags, hipGraphDebugDotFlagsMemcpyNodeParams)) return;
  out << kBreak << "to " << work.dst.base << " pitch " << work.dst.pitch << kBreak << "from " << work.src.base
      << " pitch " << work.src.pitch << kBreak << "kind " << node.action.copy.kind;
}

void print_fill(const Node &node, unsigned flags, std::ostream &out) {
  const hipMemsetParams params = fill_params(node);
  out << "memset " << params.width << 'x' << params.height << " of " << params.elementSize << " B";
  if (!wants(flags, hipGraphDebugDotFlagsMemsetNodeParams)) return;
  out << kBreak << "to " << params.dst << " pitch " << params.pitch << kBreak << "value " << params.value;
}

void print_host(const Node &node, unsigned flags, std::ostream &out) {
  out << "host";
  if (!wants(flags, hipGraphDebugDotFlagsHostNodeParams)) return;
  const hipHostNodeParams params = host_params(node);
  out << kBreak << "function " << reinterpret_cast<void *>(params.fn) << kBreak << "data " << params.userData;
}

void print_event(const Node &node, unsigned flags, std::ostream &out) {
  out << (node.action.type == hipGraphNodeTypeEventRecord ? "event record" : "event wait");
  if (wants(flags, hipGraphDebugDotFlagsEventNodeParams)) out << kBreak << "event " << node.action.event;
}

void print_label(const Node &node, unsigned flags, std::ostream &out) {
  switch (node.action.type) {
    case hipGraphNodeTypeKernel: print_kernel(node, flags, out); break;
    case hipGraphNodeTypeMemcpy: print_copy(node, flags, out); break;
    case hipGraphNodeTypeMemset: print_fill(node, flags, out); break;
    case hipGraphNodeTypeHost: print_host(node, flags, out); break;
    case hipGraphNodeTypeEventRecord:
    case hipGraphNodeTypeWaitEvent: print_event(node, flags, out); break;
    case hipGraphNodeTypeMemAlloc:
      out << "alloc " << alloc_params(node).bytesize << " B" << kBreak << "at " << alloc_params(node).dptr;
      break;
    case hipGraphNodeTypeMemFree: out << "free" << kBreak << "of " << freed_address(node); break;
    case hipGraphNodeTypeGraph: out << "child graph"; break;
    case hipGraphNodeTypeBatchMemOp: out << "memory operation"; break;
    case hipGraphNodeTypeEmpty: out << "empty"; break;
    default: out << "node of type " << node.action.type; break;
  }
  if (wants(flags, hipGraphDebugDotFlagsHandles)) out << kBreak << "handle " << node.handle;
}

// Prints a graph. A node's name is its position, after the names of the child graph nodes around it.
void print_graph(const Graph &graph, const std::string &prefix, unsigned flags, std::ostream &out) {
  for (const auto &node : graph.nodes) {
    const std::string name = prefix + std::to_string(node->index);
    out << "  \"" << name << "\" [label=\"" << name << ": ";
    print_label(*node, flags, out);
    out << "\"];\n";
    if (!node->action.child) continue;
    out << "  subgraph \"cluster_" << name << "\" {\n  label=\"" << name << "\";\n";
    print_graph(*node->action.child, name + ".", flags, out);
    out << "  }\n";
  }
  for (const auto &node : graph.nodes) {
    for (const Node *to : node->dependents) {
      out << "  \"" << prefix << node->index << "\" -> \"" << prefix << to->index << "\";\n";
    }
  }
}

}  // namespace
std::string dot_text(const Graph &graph, unsigned flags) {
  std::ostringstream text;
  text << "digraph graph_" << reinterpret_cast<uintptr_t>(graph.handle) << " {\n  node [shape=box];\n";
  print_graph(graph, "", flags, text);
  text << "}\n";
  return text.str();
}

}  // namespace cpu
