/* Streams as Python objects, with what a launch needs of them. */
#include "objects.h"

PyTypeObject *hiprt_py_stream_type;

static int traverse(PyObject *object, visitproc visit, void *arg) {
  hiprt_py_stream *self = (hiprt_py_stream *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->memory);
  Py_VISIT(self->keep);
  Py_VISIT(self->written);
  return 0;
}

static int clear(PyObject *object) {
  hiprt_py_stream *self = (hiprt_py_stream *)object;
  Py_CLEAR(self->memory);
  Py_CLEAR(self->keep);
  Py_CLEAR(self->written);
  return 0;
}

static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  hiprt_py_free(object);
}

PyTypeObject *hiprt_py_make_stream(void) {
  static PyMemberDef members[] = {
      {"address", T_ULONGLONG, offsetof(hiprt_py_stream, address), 0, 0},
      {"memory", T_OBJECT, offsetof(hiprt_py_stream, memory), 0, 0},
      {"keep", T_OBJECT, offsetof(hiprt_py_stream, keep), 0, 0},
      {"written", T_OBJECT, offsetof(hiprt_py_stream, written), 0, 0},
      {0},
  };
  static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)dealloc}, {Py_tp_traverse, (void *)traverse},
                                {Py_tp_clear, (void *)clear},     {Py_tp_members, members},
                                {0, 0}};
  static PyType_Spec spec = {"hiprt.objects.Stream", sizeof(hiprt_py_stream), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return hiprt_py_stream_type = (PyTypeObject *)PyType_FromSpec(&spec);
}
