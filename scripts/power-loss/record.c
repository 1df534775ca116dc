/*
 * Records every call of a program that changes files below a folder, in order and with its data. For
 * LD_PRELOAD; scripts/power-loss/record.mjs compiles and uses it.
 *
 *   POWER_LOSS_ROOT  the folder, as realpath gives it
 *   POWER_LOSS_LOG   where to append; records are read by scripts/power-loss/log.mjs
 *
 * A record is a line "OP NUMBER LENGTH LENGTH LENGTH" and then two paths and data of these lengths. Calls are
 * made one at a time, so their order in the log is that in which the kernel saw them. A call is recorded once
 * it has succeeded. A stream of stdio is recorded when it is closed, as one write of what it wrote. Mapped
 * memory and io_uring would go unseen: the tool compares the replayed log with the real files.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MARK "/acoer-mark/"
#define REAL(name) ((__typeof__(&name))next(#name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char* root;
static size_t rootLength;
static int logFile = -1;

static void* next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (!found) abort();
  return found;
}

__attribute__((constructor)) static void start(void) {
  root = getenv("POWER_LOSS_ROOT");
  const char* path = getenv("POWER_LOSS_LOG");
  if (!root || !path) return;
  rootLength = strlen(root);
  logFile = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static int inRoot(const char* path) {
  return logFile >= 0 && strncmp(path, root, rootLength) == 0 && (path[rootLength] == '/' || path[rootLength] == 0);
}

/* One call, so that records of a program's child processes stay whole. */
static void record(const char* op, long long number, const char* path, const char* other,
                   const void* data, size_t bytes) {
  char head[128];
  const int length = snprintf(head, sizeof head, "%s %lld %zu %zu %zu\n", op, number, strlen(path),
                              strlen(other), bytes);
  struct iovec parts[] = {{head, (size_t)length},
                          {(void*)path, strlen(path)},
                          {(void*)other, strlen(other)},
                          {(void*)data, bytes}};
  const ssize_t written = syscall(SYS_writev, logFile, parts, 4);
  if (written < 0 || (size_t)written != (size_t)length + strlen(path) + strlen(other) + bytes) abort();
}

/* The path of an open file below the root; of one that was deleted it begins with nothing. */
static int pathOfFile(int file, char* path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length < 0) return 0;
  path[length] = 0;
  const char deleted[] = " (deleted)";
  const size_t tail = sizeof deleted - 1;
  if ((size_t)length > tail && strcmp(path + length - tail, deleted) == 0) return 0;
  return inRoot(path);
}

/* The place that a path names, whose last part need not exist; links in front of it are followed. */
static int placeOf(int folder, const char* name, char* path) {
  if (logFile < 0) return 0;
  char whole[2 * PATH_MAX], parent[PATH_MAX];
  if (name[0] == '/') {
    snprintf(whole, sizeof whole, "%s", name);
  } else {
    char base[PATH_MAX];
    if (folder == AT_FDCWD ? !getcwd(base, sizeof base) : !pathOfFile(folder, base)) return 0;
    snprintf(whole, sizeof whole, "%s/%s", base, name);
  }
  size_t length = strlen(whole);
  while (length > 1 && whole[length - 1] == '/') whole[--length] = 0;
  char* last = strrchr(whole, '/');
  *last = 0;
  if (!realpath(last == whole ? "/" : whole, parent)) return 0;
  if (snprintf(path, PATH_MAX, "%s/%s", strcmp(parent, "/") ? parent : "", last + 1) >= PATH_MAX) return 0;
  return inRoot(path);
}

static int exists(int folder, const char* name) {
  struct stat found;
  return fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Bytes of a file from `offset` on, as one write. */
static void recordContent(const char* path, long long offset, size_t bytes) {
  char* data = malloc(bytes + 1);
  const int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (!data || file < 0) abort();
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = pread(file, data + done, bytes - done, offset + (long long)done);
    if (got <= 0) abort();
    done += (size_t)got;
  }
  syscall(SYS_close, file);
  record("write", offset, path, "", data, bytes);
  free(data);
}

static void recordOpened(int file, int existed, int truncated) {
  char path[PATH_MAX];
  if (file < 0 || !pathOfFile(file, path)) return;
  if (!existed) record("create", 0, path, "", "", 0);
  else if (truncated) record("truncate", 0, path, "", "", 0);
}

static int openRecorded(int folder, const char* name, int flags, mode_t mode) {
  if (logFile < 0 || (flags & O_ACCMODE) == O_RDONLY) return REAL(openat)(folder, name, flags, mode);
  pthread_mutex_lock(&lock);
  const int existed = exists(folder, name);
  const int file = REAL(openat)(folder, name, flags, mode);
  const int error = errno;
  recordOpened(file, existed, (flags & O_TRUNC) != 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return file;
}

static mode_t modeOf(int flags, va_list list) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

#define OPEN(name)                                                 \
  int name(const char* path, int flags, ...) {                     \
    va_list list;                                                  \
    va_start(list, flags);                                         \
    const mode_t mode = modeOf(flags, list);                       \
    va_end(list);                                                  \
    return openRecorded(AT_FDCWD, path, flags, mode);              \
  }
#define OPENAT(name)                                               \
  int name(int folder, const char* path, int flags, ...) {         \
    va_list list;                                                  \
    va_start(list, flags);                                         \
    const mode_t mode = modeOf(flags, list);                       \
    va_end(list);                                                  \
    return openRecorded(folder, path, flags, mode);                \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat64)
/* Defined last of its kind: the others call the real one. */
OPENAT(openat)
int creat(const char* path, mode_t mode) {
  return openRecorded(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char* path, mode_t mode) { return creat(path, mode); }

#define FOPEN(name)                                                                    \
  FILE* name(const char* path, const char* mode) {                                     \
    if (logFile < 0 || mode[0] == 'r') return REAL(name)(path, mode);                  \
    pthread_mutex_lock(&lock);                                                         \
    const int existed = exists(AT_FDCWD, path);                                        \
    FILE* stream = REAL(name)(path, mode);                                             \
    const int error = errno;                                                           \
    if (stream) recordOpened(fileno(stream), existed, mode[0] == 'w');                 \
    pthread_mutex_unlock(&lock);                                                       \
    errno = error;                                                                     \
    return stream;                                                                     \
  }
FOPEN(fopen)
FOPEN(fopen64)

int fclose(FILE* stream) {
  char path[PATH_MAX];
  const int file = logFile < 0 ? -1 : fileno(stream);
  const int writes = file >= 0 && (fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY;
  if (!writes || !pathOfFile(file, path)) return REAL(fclose)(stream);
  pthread_mutex_lock(&lock);
  const int result = REAL(fclose)(stream);
  const int error = errno;
  struct stat found;
  if (stat(path, &found) == 0 && found.st_size > 0) recordContent(path, 0, (size_t)found.st_size);
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

/* Where the next write of an open file goes. */
static long long positionOf(int file) {
  struct stat found;
  if (fcntl(file, F_GETFL) & O_APPEND) return fstat(file, &found) == 0 ? found.st_size : 0;
  return lseek(file, 0, SEEK_CUR);
}

static void recordVectors(const char* path, long long offset, const struct iovec* parts, int count, ssize_t bytes) {
  for (int i = 0; i < count && bytes > 0; i++) {
    const size_t length = parts[i].iov_len < (size_t)bytes ? parts[i].iov_len : (size_t)bytes;
    record("write", offset, path, "", parts[i].iov_base, length);
    offset += (long long)length;
    bytes -= (ssize_t)length;
  }
}

/* A call that writes to `file`, at `at` or where the file stands; `recording` may use path, offset and done. */
#define RECORDED(file, at, call, recording)                        \
  char path[PATH_MAX];                                             \
  if (logFile < 0 || !pathOfFile(file, path)) return call;         \
  pthread_mutex_lock(&lock);                                       \
  const long long offset = (at) < 0 ? positionOf(file) : (at);     \
  const ssize_t done = call;                                       \
  const int error = errno;                                         \
  if (done > 0) recording;                                         \
  pthread_mutex_unlock(&lock);                                     \
  errno = error;                                                   \
  return done;

#define WRITING(file, parts, count, at, call) \
  RECORDED(file, at, call, recordVectors(path, offset, parts, count, done))

ssize_t write(int file, const void* data, size_t bytes) {
  const struct iovec part = {(void*)data, bytes};
  WRITING(file, &part, 1, -1LL, syscall(SYS_write, file, data, bytes))
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t at) {
  const struct iovec part = {(void*)data, bytes};
  WRITING(file, &part, 1, (long long)at, syscall(SYS_pwrite64, file, data, bytes, at))
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t at) { return pwrite(file, data, bytes, at); }
ssize_t writev(int file, const struct iovec* parts, int count) {
  WRITING(file, parts, count, -1LL, syscall(SYS_writev, file, parts, count))
}
ssize_t pwritev(int file, const struct iovec* parts, int count, off_t at) {
  WRITING(file, parts, count, (long long)at, REAL(pwritev)(file, parts, count, at))
}
ssize_t pwritev64(int file, const struct iovec* parts, int count, off64_t at) {
  return pwritev(file, parts, count, at);
}

/* A call that copies within the kernel. */
#define COPYING(file, at, call) RECORDED(file, at, call, recordContent(path, offset, (size_t)done))

ssize_t sendfile(int to, int from, off_t* at, size_t bytes) {
  COPYING(to, -1LL, syscall(SYS_sendfile, to, from, at, bytes))
}
ssize_t sendfile64(int to, int from, off64_t* at, size_t bytes) { return sendfile(to, from, at, bytes); }
ssize_t copy_file_range(int from, off64_t* fromAt, int to, off64_t* toAt, size_t bytes, unsigned flags) {
  COPYING(to, toAt ? (long long)*toAt : -1LL,
          syscall(SYS_copy_file_range, from, fromAt, to, toAt, bytes, flags))
}

int ftruncate(int file, off_t size) {
  char path[PATH_MAX];
  if (logFile < 0 || !pathOfFile(file, path)) return REAL(ftruncate)(file, size);
  pthread_mutex_lock(&lock);
  const int result = REAL(ftruncate)(file, size);
  const int error = errno;
  if (result == 0) record("truncate", size, path, "", "", 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }

#define SYNC(name)                                                                \
  int name(int file) {                                                            \
    char path[PATH_MAX];                                                          \
    if (logFile < 0 || !pathOfFile(file, path)) return REAL(name)(file);          \
    pthread_mutex_lock(&lock);                                                    \
    const int result = REAL(name)(file);                                          \
    const int error = errno;                                                      \
    if (result == 0) record("sync", 0, path, "", "", 0);                          \
    pthread_mutex_unlock(&lock);                                                  \
    errno = error;                                                                \
    return result;                                                                \
  }
SYNC(fsync)
SYNC(fdatasync)

/* A call that changes names; `from` and `to` are where, as folder and name (to: null if there is but one). */
#define NAMING(op, fromFolder, fromName, toFolder, toName, call)                               \
  char from[PATH_MAX] = "", to[PATH_MAX] = "";                                                 \
  const int hasFrom = placeOf(fromFolder, fromName, from);                                     \
  const char* second = toName;                                                                 \
  const int hasTo = second && placeOf(toFolder, second, to);                                   \
  if (!hasFrom && !hasTo) return call;                                                         \
  pthread_mutex_lock(&lock);                                                                   \
  const int result = call;                                                                     \
  const int error = errno;                                                                     \
  if (result == 0) record(second && hasFrom != hasTo ? "foreign" : op, 0, from, to, "", 0);    \
  pthread_mutex_unlock(&lock);                                                                 \
  errno = error;                                                                               \
  return result;

int rename(const char* a, const char* b) { NAMING("rename", AT_FDCWD, a, AT_FDCWD, b, REAL(rename)(a, b)) }
int renameat(int d, const char* a, int e, const char* b) { NAMING("rename", d, a, e, b, REAL(renameat)(d, a, e, b)) }
int renameat2(int d, const char* a, int e, const char* b, unsigned flags) {
  NAMING(flags ? "foreign" : "rename", d, a, e, b, REAL(renameat2)(d, a, e, b, flags))
}
int link(const char* a, const char* b) { NAMING("link", AT_FDCWD, a, AT_FDCWD, b, REAL(link)(a, b)) }
int linkat(int d, const char* a, int e, const char* b, int flags) {
  NAMING("link", d, a, e, b, REAL(linkat)(d, a, e, b, flags))
}
int symlink(const char* target, const char* name) {
  NAMING("foreign", AT_FDCWD, name, AT_FDCWD, NULL, REAL(symlink)(target, name))
}
int truncate(const char* name, off_t size) {
  NAMING(size ? "foreign" : "truncate", AT_FDCWD, name, AT_FDCWD, NULL, REAL(truncate)(name, size))
}
int truncate64(const char* name, off64_t size) { return truncate(name, size); }
int unlink(const char* name) { NAMING("remove", AT_FDCWD, name, AT_FDCWD, NULL, REAL(unlink)(name)) }
int rmdir(const char* name) { NAMING("remove", AT_FDCWD, name, AT_FDCWD, NULL, REAL(rmdir)(name)) }
int unlinkat(int d, const char* name, int flags) { NAMING("remove", d, name, AT_FDCWD, NULL, REAL(unlinkat)(d, name, flags)) }
int remove(const char* name) { NAMING("remove", AT_FDCWD, name, AT_FDCWD, NULL, REAL(remove)(name)) }
int mkdir(const char* name, mode_t mode) { NAMING("mkdir", AT_FDCWD, name, AT_FDCWD, NULL, REAL(mkdir)(name, mode)) }
int mkdirat(int d, const char* name, mode_t mode) { NAMING("mkdir", d, name, AT_FDCWD, NULL, REAL(mkdirat)(d, name, mode)) }

/* The program says how far it is by asking whether a file exists. */
int access(const char* name, int mode) {
  const size_t length = sizeof MARK - 1;
  if (logFile < 0 || strncmp(name, MARK, length) != 0) return REAL(access)(name, mode);
  pthread_mutex_lock(&lock);
  record("mark", 0, name + length, "", "", 0);
  pthread_mutex_unlock(&lock);
  errno = ENOENT;
  return -1;
}
