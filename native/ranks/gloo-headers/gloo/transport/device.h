// Stands in for Gloo's header, see README.md. Devices are made by libtorch and only handed on here.
#pragma once
namespace gloo::transport {
class Device;
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
};
}  // namespace gloo::transport
