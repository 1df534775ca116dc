// A listening socket on one address only.
#pragma once

#include <cstdint>
#include <string>

namespace acoer::ranks {

// libtorch's TCPStore would listen on every interface; it takes over a socket that listens already.
// `address` is numeric, IPv4 or IPv6. A `port` of 0 becomes the one that was free. Throws
// std::runtime_error saying why it cannot listen.
int listenOn(const std::string& address, uint16_t& port);

}  // namespace acoer::ranks
