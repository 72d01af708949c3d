// The base of the lite headers for sources that name more of c10 and at than base.h has: torch's own.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/ATen_fwd.h>
#include <ATen/core/TensorAccessor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/irange.h>
#include <c10/util/string_view.h>
#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/MemoryFormat.h>
