// Slim: torch/all.h without the C++ frontend.
#pragma once
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/version.h>
