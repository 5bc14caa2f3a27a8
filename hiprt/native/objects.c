#include "objects.h"

void hiprt_py_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

void hiprt_py_raise(int status) {
  PyObject *module = PyImport_ImportModule("hiprt.core");
  PyObject *done = module ? PyObject_CallMethod(module, "call", "i", status) : 0;
  Py_XDECREF(done);
  Py_XDECREF(module);
}

static PyMethodDef functions[] = {{"lend", hiprt_py_lend, METH_VARARGS, 0}, {0}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "hiprt.native.objects", "Python types of the per-launch path.", -1, functions, 0, 0, 0, 0,
};

PyMODINIT_FUNC PyInit_objects(void) {
  static PyTypeObject *(*const make[])(void) = {hiprt_py_make_buffer, hiprt_py_make_array, hiprt_py_make_stream,
                                                hiprt_py_make_launcher, hiprt_py_make_planned, hiprt_py_make_launch,
                                                hiprt_py_make_plan,     hiprt_py_make_op};
  static const char *const names[] = {"Buffer", "Array", "Stream", "Launcher", "Planned", "Launch", "Plan", "Op"};
  PyObject *module = PyModule_Create(&definition);
  for (size_t i = 0; module && i < sizeof make / sizeof *make; i++) {
    PyTypeObject *type = make[i]();
    if (!type || PyModule_AddObject(module, names[i], (PyObject *)type)) Py_CLEAR(module);
  }
  if (module && PyModule_AddObject(module, "exchange_api", hiprt_py_exchange_api())) Py_CLEAR(module);
  return module;
}
