/* Tells a controller of every durable call below one directory, and of what is sent over TCP.
 *
 * Loaded into a process by LD_PRELOAD, so that it sees the calls of every library, SQLite's and OpenSSL's
 * too. Before and after each call it sends one line to the controller and waits for the answer: 0 goes on, a
 * number is the errno with which the call fails at once. A process that is to die waits for ever: the
 * controller kills it meanwhile. One call at a time: what another thread does is not under way at a kill.
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define TLS_APPLICATION_DATA 0x17

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static pid_t connected_pid;
static int controller = -1;

static const char *root(void) {
    static const char *found;
    if (!found) found = getenv("ODC_FAULT_ROOT");
    return found;
}

static int is_watched(const char *path) {
    const char *below = root();
    return below && *below && strncmp(path, below, strlen(below)) == 0;
}

/* System calls without the functions of this file, which other code calls by their names. */
static int connect_controller(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("ODC_FAULT_SOCKET");
    if (!path) return -1;
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int made = (int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (made >= 0 && syscall(SYS_connect, made, &address, sizeof address) != 0) {
        syscall(SYS_close, made);
        return -1;
    }
    return made;
}

static int tell(const char *line) {
    char answer[16] = {0};
    if (controller < 0 || connected_pid != getpid()) {
        controller = connect_controller();
        connected_pid = getpid();
    }
    if (controller < 0) return 0;
    if (syscall(SYS_sendto, controller, line, strlen(line), MSG_NOSIGNAL, NULL, 0) < 0) return 0;
    if (syscall(SYS_recvfrom, controller, answer, sizeof answer - 1, 0, NULL, NULL) <= 0) return 0;
    return atoi(answer);
}

static int before(const char *kind, const char *path, const char *other) {
    char line[2 * PATH_MAX + 64];
    pthread_mutex_lock(&one_at_a_time);
    const char *place = getenv("ODC_FAULT_PLACE");
    snprintf(line, sizeof line, "B\t%s\t%s\t%s\t%s", place ? place : "", kind, path, other ? other : "");
    int saved = errno, failure = tell(line);
    errno = saved;
    if (failure) {
        pthread_mutex_unlock(&one_at_a_time);
        errno = failure;
    }
    return failure;
}

static void after(long result) {
    char line[64];
    int saved = errno;
    snprintf(line, sizeof line, "A\t%ld", result);
    tell(line);
    pthread_mutex_unlock(&one_at_a_time);
    errno = saved;
}

static void path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
}

static void path_at(int directory, const char *name, char *path) {
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return;
    }
    if (directory == AT_FDCWD) {
        if (syscall(SYS_getcwd, path, PATH_MAX - 1) < 0) path[0] = 0;
    } else {
        path_of(directory, path);
    }
    size_t length = strlen(path);
    snprintf(path + length, PATH_MAX - length, "/%s", name);
}

static int is_sent(int descriptor, const void *data, size_t length) {
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    if (!root() || length < 1 || *(const unsigned char *)data != TLS_APPLICATION_DATA) return 0;
    if (syscall(SYS_getsockname, descriptor, &own, &size) != 0) return 0;
    return own.ss_family == AF_INET || own.ss_family == AF_INET6;
}

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define AROUND(kind, path, other, call) \
    if (before(kind, path, other)) return -1; \
    long result = (long)(call); \
    after(result); \
    return (__typeof__(call))result

#define ON_FILE(kind, descriptor, call) \
    char path[PATH_MAX]; \
    path_of(descriptor, path); \
    if (!is_watched(path)) return call; \
    AROUND(kind, path, NULL, call)

#define ON_SOCKET_OR_FILE(descriptor, data, length, call) \
    if (is_sent(descriptor, data, length)) { \
        AROUND("send", "", NULL, call); \
    } \
    ON_FILE("write", descriptor, call)

ssize_t write(int d, const void *data, size_t n) { NEXT(write); ON_SOCKET_OR_FILE(d, data, n, next(d, data, n)); }
ssize_t pwrite(int d, const void *data, size_t n, off_t at) { NEXT(pwrite); ON_FILE("write", d, next(d, data, n, at)); }
ssize_t pwrite64(int d, const void *data, size_t n, off64_t at) {
    NEXT(pwrite64);
    ON_FILE("write", d, next(d, data, n, at));
}
ssize_t writev(int d, const struct iovec *v, int n) {
    NEXT(writev);
    ON_SOCKET_OR_FILE(d, v[0].iov_base, v[0].iov_len, next(d, v, n));
}
ssize_t send(int d, const void *data, size_t n, int flags) {
    NEXT(send);
    if (!is_sent(d, data, n)) return next(d, data, n, flags);
    AROUND("send", "", NULL, next(d, data, n, flags));
}
ssize_t sendto(int d, const void *data, size_t n, int flags, const struct sockaddr *to, socklen_t size) {
    NEXT(sendto);
    if (!is_sent(d, data, n)) return next(d, data, n, flags, to, size);
    AROUND("send", "", NULL, next(d, data, n, flags, to, size));
}
ssize_t sendmsg(int d, const struct msghdr *message, int flags) {
    NEXT(sendmsg);
    if (message->msg_iovlen < 1 || !is_sent(d, message->msg_iov[0].iov_base, message->msg_iov[0].iov_len))
        return next(d, message, flags);
    AROUND("send", "", NULL, next(d, message, flags));
}

int fsync(int d) { NEXT(fsync); ON_FILE("fsync", d, next(d)); }
int fdatasync(int d) { NEXT(fdatasync); ON_FILE("fsync", d, next(d)); }
int ftruncate(int d, off_t size) { NEXT(ftruncate); ON_FILE("truncate", d, next(d, size)); }
int ftruncate64(int d, off64_t size) { NEXT(ftruncate64); ON_FILE("truncate", d, next(d, size)); }

#define ON_NAME(kind, directory, name, call) \
    char path[PATH_MAX]; \
    path_at(directory, name, path); \
    if (!is_watched(path)) return call; \
    AROUND(kind, path, NULL, call)

int unlink(const char *name) { NEXT(unlink); ON_NAME("unlink", AT_FDCWD, name, next(name)); }
int rmdir(const char *name) { NEXT(rmdir); ON_NAME("rmdir", AT_FDCWD, name, next(name)); }
int unlinkat(int d, const char *name, int flags) {
    NEXT(unlinkat);
    ON_NAME(flags & AT_REMOVEDIR ? "rmdir" : "unlink", d, name, next(d, name, flags));
}
int mkdir(const char *name, mode_t mode) { NEXT(mkdir); ON_NAME("mkdir", AT_FDCWD, name, next(name, mode)); }
int mkdirat(int d, const char *name, mode_t mode) { NEXT(mkdirat); ON_NAME("mkdir", d, name, next(d, name, mode)); }

static int renamed(int od, const char *old, int nd, const char *new, char *from, char *to) {
    path_at(od, old, from);
    path_at(nd, new, to);
    return is_watched(to) || is_watched(from);
}

int rename(const char *old, const char *new) {
    NEXT(rename);
    char from[PATH_MAX], to[PATH_MAX];
    if (!renamed(AT_FDCWD, old, AT_FDCWD, new, from, to)) return next(old, new);
    AROUND("rename", to, from, next(old, new));
}
int renameat(int od, const char *old, int nd, const char *new) {
    NEXT(renameat);
    char from[PATH_MAX], to[PATH_MAX];
    if (!renamed(od, old, nd, new, from, to)) return next(od, old, nd, new);
    AROUND("rename", to, from, next(od, old, nd, new));
}

/* Only an open that makes a file, or empties one, changes the disk. */
static const char *change(const char *path, int flags) {
    struct stat found;
    if (!(flags & (O_CREAT | O_TRUNC)) || !is_watched(path)) return NULL;
    if (syscall(SYS_newfstatat, AT_FDCWD, path, &found, 0) != 0) return flags & O_CREAT ? "create" : NULL;
    return (flags & O_TRUNC) && found.st_size > 0 && !(flags & O_EXCL) ? "truncate" : NULL;
}

#define OPENED(name, parameters, directory, call) \
    int name parameters { \
        NEXT(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        char path[PATH_MAX]; \
        path_at(directory, file, path); \
        const char *kind = change(path, flags); \
        if (!kind) return call; \
        AROUND(kind, path, NULL, call); \
    }

OPENED(open, (const char *file, int flags, ...), AT_FDCWD, next(file, flags, mode))
OPENED(open64, (const char *file, int flags, ...), AT_FDCWD, next(file, flags, mode))
OPENED(openat, (int d, const char *file, int flags, ...), d, next(d, file, flags, mode))
OPENED(openat64, (int d, const char *file, int flags, ...), d, next(d, file, flags, mode))
