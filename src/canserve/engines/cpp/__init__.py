"""Reading C and C++ sources without a compiler: text with comments taken out, initializers, enums, functions."""
