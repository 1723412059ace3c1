// A sample with everything that the scanner has to see through.
#include <metal_stdlib>
using namespace metal;

#define KERNEL(name) kernel void name() { \
    /* kernel void in_macro() {} */ }

struct Params { uint n; float scale[2]; } ;
constant uint table[] = { 1, 2, 3 };

/* kernel void commented(device float *x) { } */
// kernel void commented_too() {}

kernel void add(device const float *a [[buffer(0)]],
                device float *out     [[buffer(1)]],
                uint i [[thread_position_in_grid]])
{
    if (i < 1'000) { out[i] = a[i] + 1; }   // } not the end
    printf("} { kernel void in_string() {");
}

static inline float helper(float x) { return x * 2; }

[[kernel, max_total_threads_per_threadgroup(64)]]
void attributed(device float *out [[buffer(0)]]) {
    out[0] = helper('}');
}

namespace deep { namespace er {
vertex float4 vmain(uint vid [[vertex_id]]) {
    return float4(0);
}
fragment half4 fmain() { return half4(1); }
} }

extern "C" {
kernel void in_extern_c() {}
}

template <typename T, int N = (1 > 0)>
kernel void scale(device T *x [[buffer(0)]]) {
    x[0] *= N;
}
template [[host_name("scale_f32")]] kernel void scale<float, 2>(device float *x);
template [[host_name("scale_f16")]] [[kernel]] void scale<half>(device half *x);

kernel void declared_only(device float *x);

[[host_name("public_name")]] kernel void private_name() {}
[[object]] void obj() {}
[[visible]] float vis(float x) { return x; }

constant auto lambda = [](float x) { return x; };
kernel void last() {}
