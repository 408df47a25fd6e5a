/*
 * A request of one size and a response of another over one TCP connection, as fast as they go: the yardstick for the RPC of the
 * generators (tools/bench_host.py). One process holds both ends, non-blocking, and waits in epoll, as the agent does; with `two`
 * client and server are processes of their own, which block, and each turn wakes the other.
 *
 * Usage: pingpong one|two CLIENT_NETNS SERVER_NETNS ADDRESS PORT REQUEST RESPONSE SECONDS
 * Namespaces are paths (/run/netns/NAME). Prints the median and the 99th percentile of a turn in nanoseconds, and how many.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 4000000

static uint32_t *turns;
static size_t count;
static char buffer[1 << 20];

static void check(int bad, const char *what)
{
	if (bad) {
		perror(what);
		exit(1);
	}
}

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static void enter(const char *path)
{
	int fd = open(path, O_RDONLY);

	check(fd < 0, path);
	check(setns(fd, CLONE_NEWNET), "setns");
	close(fd);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void note(uint64_t ns)
{
	if (count < MOST)
		turns[count++] = ns > UINT32_MAX ? UINT32_MAX : ns;
}

/* Blocking: all of it. */
static int move(int fd, size_t n, int out)
{
	while (n) {
		ssize_t k = out ? send(fd, buffer, n, MSG_NOSIGNAL) : recv(fd, buffer, n, 0);

		if (k <= 0)
			return -1;
		n -= k;
	}
	return 0;
}

static void two(int listener, int client, size_t request, size_t response, uint64_t end)
{
	pid_t child = fork();

	check(child < 0, "fork");
	if (child == 0) {
		int server = accept(listener, NULL, NULL), one = 1;

		close(client);
		setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		while (!move(server, request, 0) && !move(server, response, 1))
			;
		_exit(0);
	}
	while (now() < end) {
		uint64_t from = now();

		if (move(client, request, 1) || move(client, response, 0))
			break;
		note(now() - from);
	}
	shutdown(client, SHUT_RDWR);
	waitpid(child, NULL, 0);
}

/* Non-blocking: as much as goes; what is left. */
static size_t some(int fd, size_t n, int out)
{
	while (n) {
		ssize_t k = out ? send(fd, buffer, n, MSG_NOSIGNAL) : recv(fd, buffer, n, 0);

		if (k <= 0) {
			check(k == 0 || errno != EAGAIN, "a turn");
			break;
		}
		n -= k;
	}
	return n;
}

static void one(int listener, int client, size_t request, size_t response, uint64_t end)
{
	int server = accept(listener, NULL, NULL), yes = 1, poll = epoll_create1(0);
	size_t to_send = request, to_answer = 0, to_read = request, to_hear = response;
	struct epoll_event events[8];
	uint64_t from = now();

	check(server < 0, "accept");
	setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	for (int i = 0; i < 2; i++) {
		int fd = i ? server : client;
		struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd };

		fcntl(fd, F_SETFL, O_NONBLOCK);
		check(epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
	}
	to_send = some(client, to_send, 1);
	while (from < end) {
		int n = epoll_wait(poll, events, 8, 1000);

		check(n <= 0, "epoll_wait");
		for (int i = 0; i < n; i++) {
			if (events[i].data.fd == server) {
				to_read = some(server, to_read, 0);
				if (!to_read) {
					to_read = request;
					to_answer += response;
				}
				to_answer = some(server, to_answer, 1);
				continue;
			}
			to_send = some(client, to_send, 1);
			to_hear = some(client, to_hear, 0);
			if (!to_hear) {
				note(now() - from);
				to_hear = response;
				from = now();
				to_send = some(client, request, 1);
			}
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 9) {
		fprintf(stderr, "usage: pingpong one|two CLIENT_NETNS SERVER_NETNS ADDRESS PORT REQUEST RESPONSE SECONDS\n");
		return 2;
	}
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[5])) };
	size_t request = atol(argv[6]), response = atol(argv[7]);
	int yes = 1, listener, client;

	signal(SIGPIPE, SIG_IGN);
	check(inet_pton(AF_INET, argv[4], &at.sin_addr) != 1, "address");
	turns = calloc(MOST, sizeof *turns);
	/* As the agent, ahead of what else runs. */
	check(setpriority(PRIO_PROCESS, 0, -20), "setpriority");
	enter(argv[3]);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	check(bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1), "listen");
	enter(argv[2]);
	client = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	check(connect(client, (struct sockaddr *)&at, sizeof at), "connect");
	uint64_t end = now() + (uint64_t)(atof(argv[8]) * 1e9);

	(strcmp(argv[1], "two") ? one : two)(listener, client, request, response, end);
	check(!count, "no turn");
	qsort(turns, count, sizeof *turns, compare);
	printf("%u %u %zu\n", turns[count / 2], turns[count - 1 - count / 100], count);
	return 0;
}
