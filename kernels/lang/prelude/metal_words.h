// The last part of the checker's prelude: Metal's address spaces, and the target that programs see.
#define device __global
#define constant __constant
#define thread __private
#define threadgroup __local
#undef HIPRT_TARGET_AMD
#define HIPRT_TARGET_AMD 0
namespace metal {
namespace precise { using namespace metal; }
namespace fast { using namespace metal; }
}
