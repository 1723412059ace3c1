// This file lets profiler_linux.go declare a function without body.
