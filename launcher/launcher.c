/*
 * Starts processes for the Node process that started this one, which would have to copy its own page tables for each.
 *
 * Two processes share descriptor 3, a socket to Node: requests come in, reports go out. The starter serves requests and
 * is the parent of what it starts; the guardian only waits. When the starter dies, the guardian adopts its children and
 * reports their ends; when the guardian dies, the starter goes on; when Node dies, they kill all that was started.
 * No signal but SIGKILL and SIGSTOP has an effect on them, and no other process of their user can read or trace them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VERSION "1"
#define CHANNEL 3
#define NO_USER UINT32_MAX
#define MAX_TEXT (64u << 20)

enum { START = 1, MAKE_FIFOS = 2 };
enum { PATHS, PROGRAMS, ARGV, ENV, LISTS };

/* Followed by `bytes` bytes of text: the strings of all lists, each with its NUL. */
static struct {
	uint32_t bytes, id, kind, uid, gid;
	/* START: cwd, stdin, stdout, stderr; where the program may be; argv; env. MAKE_FIFOS: their paths. */
	uint32_t counts[LISTS];
} request;
static char **lists[LISTS];

enum { HELLO = 1, STARTED, REFUSED, MADE, ENDED, LOST };
struct report {
	int32_t kind;
	int32_t id; /* of the request; ENDED: the signal, or 0 */
	int32_t pid; /* REFUSED: the stage that failed */
	int32_t code; /* REFUSED: errno; ENDED: exit code */
	int64_t since; /* STARTED: nothing of it began before, in 1/100 s since boot */
};

enum { IN_FORK = 1, IN_FILES, IN_CWD, IN_USER, IN_PROGRAM };

/* The start under way, in memory that the guardian shares. */
static volatile struct {
	uint32_t id; /* 0: none */
	pid_t pid; /* written by the kernel before the child runs */
	int stage, error;
	int64_t since;
} *current;

static void report(int32_t kind, int32_t id, int32_t pid, int32_t code, int64_t since)
{
	const struct report said = { kind, id, pid, code, since };
	while (write(CHANNEL, &said, sizeof said) < 0 && errno == EINTR)
		;
}

static _Noreturn void refuse(int stage)
{
	current->stage = stage;
	current->error = errno;
	_exit(127);
}

/* Runs in the child, in memory that is the starter's, too: what it changes but `current` must be ready to be thrown away. */
static int become_program(void *unused)
{
	static const int flags[] = { O_RDONLY, O_RDWR | O_APPEND, O_WRONLY };
	char **paths = lists[PATHS], **argv = lists[ARGV], **env = lists[ENV];
	sigset_t none;
	(void)unused;
	setsid();
	for (int fd = 0; fd < 3; fd++) {
		int opened = open(paths[1 + fd], flags[fd] | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
		if (opened < 0 || dup2(opened, fd) < 0)
			refuse(IN_FILES);
	}
	if (chdir(paths[0]) < 0)
		refuse(IN_CWD);
	/* not by the functions of these names, which may speak to other threads */
	if (request.uid != NO_USER &&
	    ((geteuid() == 0 && syscall(SYS_setgroups, 0, NULL) < 0) || syscall(SYS_setgid, request.gid) < 0 ||
	     syscall(SYS_setuid, request.uid) < 0))
		refuse(IN_USER);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* the rest as execvp does it */
	int error = ENOENT;
	for (char **program = lists[PROGRAMS]; *program; program++) {
		execve(*program, argv, env);
		if (errno == ENOEXEC) {
			/* a script without an interpreter line; there is room before argv[0] */
			argv[0] = *program;
			argv[-1] = "/bin/sh";
			execve("/bin/sh", argv - 1, env);
		}
		if (errno == EACCES)
			error = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR)
			refuse(IN_PROGRAM);
	}
	errno = error;
	refuse(IN_PROGRAM);
}

/* Where memory runs out, what is started here is killed before Node; it inherits this. */
static void prefer_as_oom_victim(pid_t pid)
{
	const struct timespec pause = { 0, 50000 };
	char path[64];
	int file;
	snprintf(path, sizeof path, "/proc/%d/oom_score_adj", pid);
	/* until it has put off our memory and with it the rule that nobody but root may write here */
	for (int tries = 0; (file = open(path, O_WRONLY | O_CLOEXEC)) < 0 && errno == EACCES && tries < 10; tries++)
		nanosleep(&pause, NULL);
	/* refused where it is higher already */
	if (file >= 0 && write(file, "500", 3) <= 3)
		close(file);
}

static void start(void)
{
	static char stack[64 << 10] __attribute__((aligned(64)));
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	current->pid = 0;
	current->error = 0;
	current->since = now.tv_sec * 100LL + now.tv_nsec / 10000000;
	current->id = request.id;
	pid_t pid = clone(become_program, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | SIGCHLD,
			  NULL, &current->pid);
	if (pid < 0) {
		current->stage = IN_FORK;
		current->error = errno;
	} else if (current->error) {
		waitpid(pid, NULL, 0);
	}
	if (current->error) {
		report(REFUSED, request.id, current->stage, current->error, 0);
	} else {
		report(STARTED, request.id, pid, 0, current->since);
		prefer_as_oom_victim(pid);
	}
	current->id = 0;
}

static void make_fifos(void)
{
	for (char **path = lists[PATHS]; *path; path++) {
		if (mkfifo(*path, 0600) < 0 && errno != EEXIST) {
			report(REFUSED, request.id, IN_FILES, errno, 0);
			return;
		}
	}
	report(MADE, request.id, 0, 0, 0);
}

static int read_exactly(void *to, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t got = read(CHANNEL, (char *)to + at, bytes - at);
		if (got == 0 || (got < 0 && errno != EINTR))
			return 0;
		at += got > 0 ? got : 0;
	}
	return 1;
}

/* Does what one request asks; 0 when there is nobody left to ask, or nonsense came. */
static int serve(void)
{
	static char *text, **strings;
	if (!read_exactly(&request, sizeof request) || request.bytes > MAX_TEXT)
		return 0;
	/* a place more before each list, for /bin/sh, and one after it, for its end */
	size_t places = 2 * LISTS;
	for (int list = 0; list < LISTS; list++)
		places += request.counts[list];
	if (places > request.bytes + 2 * LISTS)
		return 0;
	char *at = text = realloc(text, request.bytes + 1);
	char **to = strings = realloc(strings, places * sizeof *strings);
	if (!text || !strings || !read_exactly(text, request.bytes))
		return 0;
	for (int list = 0; list < LISTS; list++) {
		lists[list] = ++to;
		for (uint32_t i = 0; i < request.counts[list]; i++) {
			char *end = memchr(at, 0, text + request.bytes - at);
			if (!end)
				return 0;
			*to++ = at;
			at = end + 1;
		}
		*to++ = NULL;
	}
	if (request.kind == MAKE_FIFOS)
		make_fifos();
	else if (request.kind == START && request.counts[PATHS] == 4)
		start();
	return 1;
}

/* Tells of each end before it is reaped, so that the guardian tells it again when we die in between. */
static void reap(void)
{
	siginfo_t info = { 0 };
	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 && info.si_pid != 0) {
		if (info.si_code == CLD_EXITED)
			report(ENDED, 0, info.si_pid, info.si_status, 0);
		else
			report(ENDED, info.si_status, info.si_pid, 0, 0);
		waitpid(info.si_pid, NULL, __WALL);
		info.si_pid = 0;
	}
}

/* Kills all children, those that they leave to us, and so on, until none is left. */
static void end_all(int children)
{
	static char list[1 << 16];
	const struct timespec pause = { 0, 5000000 };
	pid_t pid;
	for (int round = 0; round < 1000; round++) {
		ssize_t bytes = pread(children, list, sizeof list - 1, 0);
		list[bytes > 0 ? bytes : 0] = 0;
		for (char *at = list; (pid = strtol(at, &at, 10)) > 0;) {
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL);
		}
		while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
			;
		if (pid < 0)
			return;
		nanosleep(&pause, NULL);
	}
}

/* Waits until a child has changed or the channel has one of the events or is closed; whether it is the channel. */
static int await(int signals, short events)
{
	struct pollfd polled[] = { { CHANNEL, events, 0 }, { signals, POLLIN, 0 } };
	struct signalfd_siginfo seen;
	while (poll(polled, 2, -1) < 0)
		;
	while (polled[1].revents && read(signals, &seen, sizeof seen) > 0)
		;
	return polled[0].revents != 0;
}

/* Says how far the starter got that has died. */
static void tell_of_starter(int on_the_way)
{
	char nothing;
	/* until a child on its way has become the program or has failed: both close this pipe */
	while (read(on_the_way, &nothing, 1) < 0)
		;
	if (current->id && current->error)
		report(REFUSED, current->id, current->stage, current->error, 0);
	else if (current->id && current->pid)
		report(STARTED, current->id, current->pid, 0, current->since);
	report(LOST, 0, 0, 0, 0);
}

int main(int argc, char **argv)
{
	/* what a start passes on must not be read by others, nor may anybody put words into our mouth */
	prctl(PR_SET_DUMPABLE, 0);
	if (argc != 2 || strcmp(argv[1], VERSION) || fcntl(CHANNEL, F_SETFD, FD_CLOEXEC) < 0)
		return 64;
	if (syscall(SYS_close_range, CHANNEL + 1, ~0U, 0) < 0)
		for (int fd = sysconf(_SC_OPEN_MAX); fd > CHANNEL; fd--)
			close(fd);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigset_t all, child;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	int on_the_way[2];
	current = mmap(NULL, sizeof *current, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (current == MAP_FAILED || chdir("/") < 0 || pipe2(on_the_way, O_CLOEXEC) < 0)
		return 75;
	/* for the guardian before there is a starter that could die, and for the starter, which does not inherit it */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid_t starter = fork();
	if (starter < 0)
		return 75;
	close(on_the_way[starter == 0 ? 0 : 1]);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
	int children = open(path, O_RDONLY | O_CLOEXEC);
	int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (starter == 0) {
		report(HELLO, 0, getpid(), 0, 0);
		for (int asked; asked = await(signals, POLLIN), reap(), !asked || serve();)
			;
	} else {
		while (!await(signals, 0)) {
			if (starter && waitpid(starter, NULL, WNOHANG) == starter) {
				starter = 0;
				tell_of_starter(on_the_way[0]);
			}
			if (!starter)
				reap();
		}
	}
	end_all(children);
	return 0;
}
