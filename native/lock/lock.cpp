// The exports of lock.node: NativeLocks in src/run/kernel-lock.ts. Node has no file locks.
//
// These are open file description locks (fcntl(2), Linux 3.15). They belong to an open file, so the
// kernel releases them with the process however it ends, two in one process exclude each other, and
// closing another descriptor of the same file does not release them, as it does POSIX locks.
#include <fcntl.h>
#include <napi.h>

#include <cerrno>

namespace {

// One byte far behind the content, which stays readable on SMB, where locks are mandatory.
constexpr off_t LOCKED_BYTE = off_t{1} << 30;

// Returns 0 or errno.
int control(const Napi::CallbackInfo& info, int command, struct flock& lock) {
  if (!info[0].IsNumber()) return EBADF;
  const int file = info[0].As<Napi::Number>().Int32Value();
  lock.l_whence = SEEK_SET;
  lock.l_start = LOCKED_BYTE;
  lock.l_len = 1;
  lock.l_pid = 0;
  int result = 0;
  do result = fcntl(file, command, &lock);
  while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

// tryLock(descriptor: number): number. 0: taken; else errno, EAGAIN if another open file has it.
Napi::Value tryLock(const Napi::CallbackInfo& info) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  return Napi::Number::New(info.Env(), control(info, F_OFD_SETLK, lock));
}

// testLock(descriptor: number): number. Takes nothing. 0: free; else errno, EAGAIN if another open
// file has it.
Napi::Value testLock(const Napi::CallbackInfo& info) {
  struct flock lock{};
  lock.l_type = F_RDLCK;  // what a file open for reading may ask for
  const int error = control(info, F_OFD_GETLK, lock);
  return Napi::Number::New(info.Env(), error == 0 && lock.l_type != F_UNLCK ? EAGAIN : error);
}

}  // namespace

static Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  exports["tryLock"] = Napi::Function::New<tryLock>(env, "tryLock");
  exports["testLock"] = Napi::Function::New<testLock>(env, "testLock");
  return exports;
}

NODE_API_MODULE(lock, initialise)
