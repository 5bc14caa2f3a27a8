"""Export: traced functions as files, which run in another process, on another machine, on another kind of device.

`export_function` traces and writes; `import_function` reads, checks, and returns a function that runs as a graph.
A file is safetensors (`tensor_file`): a tensor for each constant, and one that is the programs, in msgpack
(`program_file`, in the words of `notation`). Neither needs a device: what a traced function makes of numpy's arrays
lies in memory of the host meanwhile (`host_stream`), and constants are copied to the device at the first call.

``mlxfn/`` reads and writes MLX's own files.
"""
