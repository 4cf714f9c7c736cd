/* The floor: for each byte on stdin runs `cat` by posix_spawn with pipes, 1 KiB in and out, and prints the nanoseconds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	char *argv[] = { "cat", NULL }, *env[] = { "PATH=/usr/bin:/bin", NULL };
	char text[1024], seen[4096], go;
	memset(text, 'x', sizeof text);
	while (read(0, &go, 1) == 1) {
		struct timespec begun, ended;
		int in[2], out[2], err[2], status;
		pid_t pid;
		ssize_t got;
		size_t size = 0;
		posix_spawn_file_actions_t actions;
		clock_gettime(CLOCK_MONOTONIC, &begun);
		if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
			return 1;
		posix_spawn_file_actions_init(&actions);
		posix_spawn_file_actions_adddup2(&actions, in[0], 0);
		posix_spawn_file_actions_adddup2(&actions, out[1], 1);
		posix_spawn_file_actions_adddup2(&actions, err[1], 2);
		if (posix_spawnp(&pid, "cat", &actions, NULL, argv, env))
			return 1;
		posix_spawn_file_actions_destroy(&actions);
		close(in[0]), close(out[1]), close(err[1]);
		if (write(in[1], text, sizeof text) != sizeof text)
			return 1;
		close(in[1]);
		while ((got = read(out[0], seen, sizeof seen)) > 0)
			size += got;
		while (read(err[0], seen, sizeof seen) > 0)
			;
		close(out[0]), close(err[0]);
		if (waitpid(pid, &status, 0) != pid || status != 0 || size != sizeof text)
			return 1;
		clock_gettime(CLOCK_MONOTONIC, &ended);
		printf("%ld\n", (ended.tv_sec - begun.tv_sec) * 1000000000L + ended.tv_nsec - begun.tv_nsec);
		fflush(stdout);
	}
	return 0;
}
