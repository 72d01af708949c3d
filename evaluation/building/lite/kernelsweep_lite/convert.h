// Conversions between Python objects and C++ values, by the rules that pybind11 applies when it may convert.
#pragma once

#include <Python.h>

#include <string>

#include <kernelsweep_lite/tensor.h>

extern "C" PyObject* THPVariableClass;
PyObject* THPVariable_Wrap(const at::TensorBase& tensor);

namespace __attribute__((visibility("hidden"))) kernelsweep_lite {

template <typename T>
using Plain = std::remove_cv_t<std::remove_reference_t<T>>;

// load(object): true when the object fits. pass<Parameter>(): the value as the function wants it.
// give(value): a new reference, or null with a Python error. name(): what is accepted, for a message.
template <typename T, typename = void>
struct Convert;

template <typename T>
struct Holder {
  T value{};
  // A parameter by value is moved out, a reference refers to what is held during the call.
  template <typename Parameter>
  Parameter pass() {
    if constexpr (std::is_lvalue_reference_v<Parameter>) {
      return value;
    } else {
      return std::move(value);
    }
  }
};

// Where the C++ tensor lies in its Python object; found once, against the address that the object itself tells.
inline Py_ssize_t payload_offset = 0;

inline bool find_payload(const at::Tensor& tensor) {
  PyObject* object = THPVariable_Wrap(tensor);
  PyObject* address = object ? PyObject_GetAttrString(object, "_cdata") : nullptr;
  void* told = address ? PyLong_AsVoidPtr(address) : nullptr;
  for (Py_ssize_t offset : {16, 24}) {
    if (told && *reinterpret_cast<void**>(reinterpret_cast<char*>(object) + offset) == told) payload_offset = offset;
  }
  Py_XDECREF(address);
  Py_XDECREF(object);
  return payload_offset != 0 && told == tensor.unsafeGetTensorImpl();
}

template <>
struct Convert<at::Tensor> {
  const at::Tensor* value = nullptr;
  at::Tensor copy;
  bool load(PyObject* object) {
    if (Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(THPVariableClass)) {
      if (PyObject_IsInstance(object, THPVariableClass) != 1) return false;
    }
    value = reinterpret_cast<const at::Tensor*>(reinterpret_cast<char*>(object) + payload_offset);
    return true;
  }
  template <typename Parameter>
  Parameter pass() {
    if constexpr (std::is_same_v<Parameter, const at::Tensor&> || !std::is_reference_v<Parameter>) {
      return *value;  // the caller's object keeps it alive
    } else {
      copy = *value;
      if constexpr (std::is_lvalue_reference_v<Parameter>) {
        return copy;
      } else {
        return std::move(copy);
      }
    }
  }
  static PyObject* give(const at::Tensor& tensor) { return THPVariable_Wrap(tensor); }
  static std::string name() { return "torch.Tensor"; }
};

template <>
struct Convert<bool> : Holder<bool> {
  bool load(PyObject* object) {
    if (object == Py_True || object == Py_False || object == Py_None) {
      value = object == Py_True;
      return true;
    }
    PyNumberMethods* number = Py_TYPE(object)->tp_as_number;
    const int truth = number && number->nb_bool ? number->nb_bool(object) : -1;
    value = truth == 1;
    return truth == 0 || truth == 1;
  }
  static PyObject* give(bool result) { return PyBool_FromLong(result); }
  static std::string name() { return "bool"; }
};

template <typename T>
struct Convert<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, char>>> : Holder<T> {
  bool load(PyObject* object) {
    if (PyFloat_Check(object)) return false;
    PyObject* number = PyLong_Check(object) ? Py_NewRef(object) : PyNumber_Index(object);
    if (!number) {
      PyErr_Clear();
      number = PyNumber_Check(object) ? PyNumber_Long(object) : nullptr;
    }
    if (!number) return false;
    bool fits;
    if constexpr (std::is_signed_v<T>) {
      const long long wide = PyLong_AsLongLong(number);
      fits = wide >= std::numeric_limits<T>::min() && wide <= std::numeric_limits<T>::max();
      this->value = static_cast<T>(wide);
    } else {
      const unsigned long long wide = PyLong_AsUnsignedLongLong(number);
      fits = wide <= std::numeric_limits<T>::max();
      this->value = static_cast<T>(wide);
    }
    Py_DECREF(number);
    return fits && !PyErr_Occurred();
  }
  static PyObject* give(T result) {
    if constexpr (std::is_signed_v<T>) {
      return PyLong_FromLongLong(result);
    } else {
      return PyLong_FromUnsignedLongLong(result);
    }
  }
  static std::string name() { return "int"; }
};

template <typename T>
struct Convert<T, std::enable_if_t<std::is_same_v<T, float> || std::is_same_v<T, double>>> : Holder<T> {
  bool load(PyObject* object) {
    PyObject* number = PyFloat_Check(object) ? Py_NewRef(object) : nullptr;
    if (!number && PyNumber_Check(object)) number = PyNumber_Float(object);
    if (!number) return false;
    this->value = static_cast<T>(PyFloat_AS_DOUBLE(number));
    Py_DECREF(number);
    return true;
  }
  static PyObject* give(T result) { return PyFloat_FromDouble(result); }
  static std::string name() { return "float"; }
};

template <>
struct Convert<std::string> : Holder<std::string> {
  bool load(PyObject* object) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
    if (PyBytes_Check(object)) {
      text = PyBytes_AS_STRING(object);
      size = PyBytes_GET_SIZE(object);
    }
    if (text) value.assign(text, size);
    return text != nullptr;
  }
  static PyObject* give(const std::string& result) {
    return PyUnicode_DecodeUTF8(result.data(), static_cast<Py_ssize_t>(result.size()), nullptr);
  }
  static std::string name() { return "str"; }
};

template <typename T>
struct Convert<std::optional<T>> : Holder<std::optional<T>> {
  bool load(PyObject* object) {
    if (object == Py_None) return true;
    Convert<T> inner;
    if (!inner.load(object)) return false;
    this->value = inner.template pass<T>();
    return true;
  }
  static PyObject* give(const std::optional<T>& result) {
    return result ? Convert<T>::give(*result) : Py_NewRef(Py_None);
  }
  static std::string name() { return Convert<T>::name() + " | None"; }
};

template <typename T>
struct Convert<std::vector<T>> : Holder<std::vector<T>> {
  static_assert(!std::is_same_v<T, bool>, "left to the stock headers");
  bool load(PyObject* object) {
    if (!PyList_Check(object) && !PyTuple_Check(object)) return false;
    PyObject* const* items = PySequence_Fast_ITEMS(object);
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
    this->value.reserve(count);
    for (Py_ssize_t i = 0; i < count; ++i) {
      Convert<T> item;
      if (!item.load(items[i])) return false;
      this->value.push_back(item.template pass<T>());
    }
    return true;
  }
  static PyObject* give(const std::vector<T>& result) {
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(result.size()));
    for (size_t i = 0; list && i < result.size(); ++i) {
      PyObject* item = Convert<T>::give(result[i]);
      if (item) {
        PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), item);
      } else {
        Py_CLEAR(list);
      }
    }
    return list;
  }
  static std::string name() { return "list[" + Convert<T>::name() + "]"; }
};

template <typename... T>
struct GiveTuple {
  template <size_t... Index>
  static PyObject* give(const std::tuple<T...>& result, std::index_sequence<Index...>) {
    PyObject* items[] = {Convert<Plain<T>>::give(std::get<Index>(result))..., nullptr};
    bool whole = true;
    for (size_t i = 0; i < sizeof...(T); ++i) whole = whole && items[i];
    PyObject* tuple = whole ? PyTuple_New(sizeof...(T)) : nullptr;
    for (size_t i = 0; i < sizeof...(T); ++i) {
      if (tuple) {
        PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), items[i]);
      } else {
        Py_XDECREF(items[i]);
      }
    }
    return tuple;
  }
};

template <typename... T>
struct Convert<std::tuple<T...>> {
  static PyObject* give(const std::tuple<T...>& result) {
    return GiveTuple<T...>::give(result, std::index_sequence_for<T...>());
  }
};

template <typename A, typename B>
struct Convert<std::pair<A, B>> {
  static PyObject* give(const std::pair<A, B>& result) { return Convert<std::tuple<A, B>>::give(result); }
};

}  // namespace kernelsweep_lite
