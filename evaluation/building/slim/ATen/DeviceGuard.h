// Slim: every operator's header includes this and uses nothing of it that ATen/core/Tensor.h lacks.
#ifdef KERNELSWEEP_SLIM_OPERATORS
#include <ATen/core/Tensor.h>
#else
#include_next <ATen/DeviceGuard.h>
#endif
