#include "socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace acoer::ranks {

namespace {

constexpr int kWaiting = 1024;  // connections that wait to be accepted

[[noreturn]] void fail(const std::string& address, uint16_t port, const std::string& why) {
  throw std::runtime_error("cannot listen on port " + std::to_string(port) + " of " + address +
                           ": " + why);
}

uint16_t portOf(const sockaddr_storage& bound) {
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

}  // namespace

int listenOn(const std::string& address, uint16_t& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  addrinfo* found = nullptr;
  const int unknown = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (unknown != 0) fail(address, port, ::gai_strerror(unknown));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> to(found, ::freeaddrinfo);
  const int fd = ::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail(address, port, std::strerror(errno));
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::bind(fd, to->ai_addr, to->ai_addrlen) != 0 || ::listen(fd, kWaiting) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    const std::string why = std::strerror(errno);
    ::close(fd);
    fail(address, port, why);
  }
  port = portOf(bound);
  return fd;
}

}  // namespace acoer::ranks
