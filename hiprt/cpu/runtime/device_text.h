// The text that the image of a program for hipcc carries: a device that checks kernels, and another machine than the one it was
// made on, compile it again.
#pragma once

#include <string>

namespace cpu {

// Gives an image for this process made of the text that `image` carries; false if it carries none, or is for this process as
// it is. Where the text cannot be compiled, a message on stderr says so, and the image is taken as it is.
bool image_for_here(const void *image, std::string *out);

}  // namespace cpu
