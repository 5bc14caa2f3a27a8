/* DLPack's structures, by which libraries share the memory of arrays, version 1.3 (https://dmlc.github.io/dlpack). Names
 * and layouts are DLPack's. */
#pragma once
#include <stdint.h>

#define DLPACK_MAJOR 1
#define DLPACK_MINOR 3

typedef struct {
  uint32_t major, minor;
} DLPackVersion;

typedef struct {
  int32_t device_type, device_id;
} DLDevice;

typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides; /* strides in elements */
  uint64_t byte_offset;
} DLTensor;

/* What capsules named "dltensor" hold. */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

/* What capsules named "dltensor_versioned" hold. */
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

enum { DLPACK_CPU = 1, DLPACK_READ_ONLY = 1, DLPACK_IS_COPIED = 2, DLPACK_COMPLEX = 5 };

/* A library's functions for extension modules, which find them without a call of Python: the attribute
 * __dlpack_c_exchange_api__ of an array's type is a capsule with this table. Each returns 0, or -1 with a Python error. */
typedef struct {
  DLPackVersion version;
  void *prev_api; /* the table of an older version of DLPack */
  int (*managed_tensor_allocator)(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                                  void (*set_error)(void *error_ctx, const char *kind, const char *message));
  int (*managed_tensor_from_py_object_no_sync)(void *object, DLManagedTensorVersioned **out);
  int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned *tensor, void **out);
  int (*dltensor_from_py_object_no_sync)(void *object, DLTensor *out);
  int (*current_work_stream)(int32_t device_type, int32_t device_id, void **out);
} DLPackExchangeAPI;
