// Python bindings made from the signatures of C++ functions, with pybind11's conversions and without its headers.
//
// Binding<&f>::call is a METH_FASTCALL function. A parameter or result of a type that has no Convert below does not
// compile, and the stock headers take over. The GIL is held, as torch's own load_inline holds it.
#pragma once

#ifndef KERNELSWEEP_LITE_EXTENSION
#error "functions= needs #include <torch/extension.h>"
#endif

#include <exception>
#include <limits>

#include <kernelsweep_lite/convert.h>

// What libtorch_python exports to every extension.
namespace torch {
void translate_exception_to_python(const std::exception_ptr& error);
// Collects torch's warnings during a call and gives them to Python when it is destroyed. Only its size is unknown here.
struct PyWarningHandler {
  PyWarningHandler() noexcept(true);
  ~PyWarningHandler() noexcept(false);
  alignas(16) char storage[256];
};
}  // namespace torch

// Hidden, because the statics of inline functions are otherwise one for all modules of a process.
namespace __attribute__((visibility("hidden"))) kernelsweep_lite {

template <typename Result, typename... Parameters>
struct Signature {
  static constexpr size_t arity = sizeof...(Parameters);

  template <size_t... Index>
  static PyObject* call(Result (*function)(Parameters...), PyObject* const* given, std::index_sequence<Index...>) {
    std::tuple<Convert<Plain<Parameters>>...> values;
    size_t wrong = arity;
    // Stops at the first argument that does not fit.
    (void)((std::get<Index>(values).load(given[Index]) || (wrong = Index, false)) && ...);
    if (wrong != arity) {
      // As with pybind11, a conversion that raised says no more than one that did not fit.
      PyErr_Clear();
      return refuse(given, wrong);
    }
    std::exception_ptr error;
    PyObject* result = nullptr;
    try {
      torch::PyWarningHandler warnings;
      try {
        if constexpr (std::is_void_v<Result>) {
          function(std::get<Index>(values).template pass<Parameters>()...);
          result = Py_NewRef(Py_None);
        } else {
          result = Convert<Plain<Result>>::give(function(std::get<Index>(values).template pass<Parameters>()...));
        }
      } catch (...) {
        error = std::current_exception();
      }
    } catch (...) {
      error = std::current_exception();
      Py_CLEAR(result);
    }
    if (error) raise(error);
    return result;
  }

  static PyObject* refuse(PyObject* const* given, size_t wrong) {
    std::string accepted;
    (void)((accepted += (accepted.empty() ? "" : ", ") + Convert<Plain<Parameters>>::name()), ...);
    return PyErr_Format(PyExc_TypeError, "incompatible function arguments: argument %zu is %s; accepted is (%s)",
                        wrong + 1, Py_TYPE(given[wrong])->tp_name, accepted.c_str());
  }

  static void raise(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
#ifndef KERNELSWEEP_LITE_TORCH
    } catch (const NotImplemented& error) {
      PyErr_SetString(PyExc_NotImplementedError, error.message.text());
#endif
    } catch (const std::exception&) {
      torch::translate_exception_to_python(std::current_exception());
    } catch (...) {
      PyErr_SetString(PyExc_RuntimeError, "Caught an unknown exception!");
    }
  }
};

template <typename Result, typename... Parameters>
Signature<Result, Parameters...> signature_of(Result (*)(Parameters...));

template <typename Result, typename... Parameters>
constexpr bool noexcept_function(Result (*)(Parameters...)) {
  return false;
}
template <typename Result, typename... Parameters>
constexpr bool noexcept_function(Result (*)(Parameters...) noexcept) {
  return true;
}

template <auto function>
struct Binding {
  // Torch's wrapper takes no noexcept function either.
  static_assert(!noexcept_function(function), "a noexcept function cannot be bound");
  using Type = decltype(signature_of(function));
  static PyObject* call(PyObject*, PyObject* const* given, Py_ssize_t count) {
    if (count != static_cast<Py_ssize_t>(Type::arity)) {
      return PyErr_Format(PyExc_TypeError, "incompatible function arguments: %zd given, %zu accepted", count,
                          Type::arity);
    }
    return Type::call(function, given, std::make_index_sequence<Type::arity>());
  }
};

template <auto function>
PyMethodDef method(const char* name, const char* doc) {
  // A signature of three arguments is what METH_FASTCALL asks for; the detour keeps -Wcast-function-type quiet.
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&Binding<function>::call)), METH_FASTCALL,
          doc};
}

// Checks the layouts that the linker cannot see; sets ImportError and returns false when one differs.
inline bool verify() {
  try {
    const int64_t sizes[] = {2, 3};
    const at::Tensor made = at::empty(sizes, at::TensorOptions().dtype(at::kLong).device(at::kCPU));
    const bool operators = made.scalar_type() == at::kLong && made.sizes() == at::IntArrayRef(sizes) && made.is_cpu();
    const bool scalars = (-at::Scalar(2.5)).holds(-2.5) && (-at::Scalar(3)).holds(int64_t{-3});
    if (operators && scalars && find_payload(made)) return true;
  } catch (...) {
    Signature<void>::raise(std::current_exception());
    return false;
  }
  PyErr_SetString(PyExc_ImportError, "the lite headers do not fit this build of torch");
  return false;
}

inline PyObject* module(const char* name, PyMethodDef* methods) {
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, name, nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
  return verify() ? PyModule_Create(&definition) : nullptr;
}

}  // namespace kernelsweep_lite
