/* Preloaded into a process: kills it with SIGKILL at the n-th change of its watched files.
 *
 * A change is a call that writes, flushes, cuts or removes a file whose path contains the watched
 * text. A fatal write first writes half of its bytes, as a crash may leave it. Programs arm it with
 * kill_at_write_arm(text, n) (n = 0 counts only) and may ask how many changes there were and
 * whether all that was written to the log has been flushed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_FD 4096

static char watched[256];
static long fatal, changes;
static int unflushed[MAX_FD];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

void kill_at_write_arm(const char *text, long n) {
    snprintf(watched, sizeof watched, "%s", text);
    fatal = n;
    changes = 0;
    memset(unflushed, 0, sizeof unflushed);
}

long kill_at_write_changes(void) { return changes; }

static int path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

/* Writes to the write-ahead log that no flush has followed. */
long kill_at_write_unflushed(void) {
    long count = 0;
    char path[PATH_MAX];
    for (int fd = 0; fd < MAX_FD; fd++)
        if (unflushed[fd] && path_of(fd, path, sizeof path) && strstr(path, "-wal"))
            count += unflushed[fd];
    return count;
}

static int counts_path(const char *path) {
    if (!watched[0] || !strstr(path, watched)) return 0;
    pthread_mutex_lock(&guard);
    long n = ++changes;
    pthread_mutex_unlock(&guard);
    return n == fatal ? 2 : 1;
}

/* 0: not watched, 1: counted, 2: the fatal one */
static int counts(int fd) {
    char path[PATH_MAX];
    return watched[0] && path_of(fd, path, sizeof path) ? counts_path(path) : 0;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static void note(int fd, int written) {
    if (fd >= 0 && fd < MAX_FD) unflushed[fd] = written ? unflushed[fd] + 1 : 0;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *bytes, size_t size) {
    REAL(write);
    int kind = counts(fd);
    if (kind == 2) { real(fd, bytes, size / 2); die(); }
    if (kind) note(fd, 1);
    return real(fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    REAL(pwrite);
    int kind = counts(fd);
    if (kind == 2) { real(fd, bytes, size / 2, at); die(); }
    if (kind) note(fd, 1);
    return real(fd, bytes, size, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    REAL(pwrite64);
    int kind = counts(fd);
    if (kind == 2) { real(fd, bytes, size / 2, at); die(); }
    if (kind) note(fd, 1);
    return real(fd, bytes, size, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    int kind = counts(fd);
    if (kind == 2) { real(fd, parts, count / 2); die(); }
    if (kind) note(fd, 1);
    return real(fd, parts, count);
}

int fsync(int fd) {
    REAL(fsync);
    int kind = counts(fd);
    if (kind == 2) die();
    if (kind) note(fd, 0);
    return real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    int kind = counts(fd);
    if (kind == 2) die();
    if (kind) note(fd, 0);
    return real(fd);
}

int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    if (counts(fd) == 2) die();
    return real(fd, size);
}

int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    if (counts(fd) == 2) die();
    return real(fd, size);
}

int unlink(const char *path) {
    REAL(unlink);
    if (counts_path(path) == 2) die();
    return real(path);
}
