#include "runtime/function.h"

#include "runtime/symbols.h"

namespace cpu {

bool find_function(const void *handle, Function *out) {
  std::shared_ptr<Function> function = function_of(static_cast<hipFunction_t>(const_cast<void *>(handle)));
  hipFunction_t own = nullptr;
  if (!function && handle && find_host_function(handle, &own) == hipSuccess) function = function_of(own);
  if (!function) return false;
  *out = *function;
  out->handle = handle;
  return true;
}

}  // namespace cpu
