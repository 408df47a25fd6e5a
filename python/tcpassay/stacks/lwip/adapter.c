/* lwIP as a process of tcpassay (docs/stacks.md). It is built by `tcpassay stack build lwip`.
 *
 * lwIP runs without threads (NO_SYS) and is used by the functions of lwip/tcp.h. Its clock has milliseconds. */
#include "lwip/init.h"
#include "lwip/netif.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"

#include <stdint.h>
#include <string.h>

enum { INPUT = 1, ADVANCE, LISTEN_AT, CONNECT, WRITE, READ, SHUTDOWN, CLOSE, ABORT, BATCH };
enum { PACKET = 1, ACCEPTED, STATUS, DATA, ERROR_TEXT, STATE };
enum { ESTABLISHED_FLAG = 1, END_OF_STREAM = 2, CLOSED_FLAG = 4, FAILED = 8 };
/* The fields of a state, all of which are shown: seven of 4 bytes, three of 8. */
enum { ALL_FIELDS = 0x3ff, STATE_LEN = 7 * 4 + 3 * 8 };
enum { HEAD = 9, STATUS_LEN = 9, LARGEST = 16 << 20, NS_PER_MS = 1000000, LARGEST_WINDOW = 65535 };

unsigned tcpassay_window = LARGEST_WINDOW, tcpassay_send_buffer = LARGEST_WINDOW, tcpassay_scale, tcpassay_mss = 1460;

static uint64_t now_ns, random_state;
static struct netif device;
static int nagle = 1;
static uint32_t keepalive_ms;
static int shows_state;
/* When the timer of 500 ms ran last: the timers of connections are counted in its ticks. */
static uint64_t last_tick_ms;

/* ---- frames ---- */

struct bytes {
  uint8_t *at;
  size_t len, room;
};

static struct bytes items;

struct socket {
  struct tcp_pcb *pcb; /* null after lwIP has freed it */
  struct bytes held;   /* data that arrived; of them the application has read the first `taken` */
  size_t taken;
  int established, peer_closed, shut, failed, released;
  uint8_t told[STATUS_LEN + 1]; /* the last status; the last byte is 1 after the first one */
  uint8_t shown[STATE_LEN];     /* the last state */
};

static struct socket **sockets;
static uint32_t socket_count;

/* Connections that the last request accepted and sockets whose status it changed, and the last of these. */
static uint32_t accepted_count, changed_count, changed_socket;

static void add(struct bytes *to, const void *from, size_t len) {
  if (to->len + len > to->room) {
    to->room = 2 * (to->len + len) + 4096;
    to->at = realloc(to->at, to->room);
    if (to->at == NULL) abort();
  }
  if (len > 0) memcpy(to->at + to->len, from, len);
  to->len += len;
}

static void add_number(struct bytes *to, uint64_t value, int len) {
  uint8_t little[8];
  for (int i = 0; i < len; i++) little[i] = (uint8_t)(value >> (8 * i));
  add(to, little, (size_t)len);
}

static uint64_t number(const uint8_t *from, int len) {
  uint64_t value = 0;
  for (int i = len - 1; i >= 0; i--) value = value << 8 | from[i];
  return value;
}

/* The content of the next request; ends the process at the end of the input. */
static uint8_t *request(size_t *len) {
  static uint8_t *content;
  static size_t room;
  uint8_t head[4];
  if (fread(head, 1, sizeof head, stdin) != sizeof head) exit(0);
  *len = number(head, sizeof head);
  if (*len > LARGEST) abort();
  if (*len + 1 > room) {
    room = *len + 1;
    content = realloc(content, room);
    if (content == NULL) abort();
  }
  if (fread(content, 1, *len, stdin) != *len) exit(0);
  content[*len] = 0;
  return content;
}

static void answer(const struct bytes *content) {
  struct bytes head = {0};
  add_number(&head, content->len, 4);
  fwrite(head.at, 1, head.len, stdout);
  fwrite(content->at, 1, content->len, stdout);
  fflush(stdout);
  free(head.at);
}

/* ---- what lwIP asks of its platform ---- */

u32_t sys_now(void) { return (u32_t)(now_ns / NS_PER_MS); }

u32_t sys_jiffies(void) { return sys_now(); }

/* A step of a linear congruential generator with the constants of Knuth's MMIX. */
unsigned tcpassay_random(void) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(random_state >> 32);
}

/* The ISN that the run sets for the first connection. All others follow the rule of lwIP without the hook. */
static uint64_t first_isn = UINT64_MAX;

u32_t tcpassay_isn(void) {
  static u32_t last = 6510;
  last = first_isn <= UINT32_MAX ? (u32_t)first_isn : last + tcp_ticks;
  first_isn = UINT64_MAX;
  return last;
}

static err_t send_packet(struct netif *netif, struct pbuf *packet, const ip4_addr_t *to) {
  (void)netif, (void)to;
  add_number(&items, PACKET, 1);
  add_number(&items, packet->tot_len, 4);
  for (struct pbuf *part = packet; part != NULL; part = part->next) add(&items, part->payload, part->len);
  return ERR_OK;
}

static err_t start_device(struct netif *netif) {
  netif->output = send_packet;
  netif->mtu = (u16_t)(tcpassay_mss + 40);
  netif->name[0] = 't';
  netif->name[1] = 'a';
  return ERR_OK;
}

/* ---- connections ---- */

static void freed(u8_t id, void *data) {
  (void)id;
  if (data != NULL) ((struct socket *)data)->pcb = NULL;
}

static const struct tcp_ext_arg_callbacks watch = {freed, NULL};

static err_t received(void *argument, struct tcp_pcb *pcb, struct pbuf *data, err_t error) {
  struct socket *socket = argument;
  (void)pcb, (void)error;
  if (data == NULL) {
    socket->peer_closed = 1;
    return ERR_OK;
  }
  for (struct pbuf *part = data; part != NULL; part = part->next) add(&socket->held, part->payload, part->len);
  pbuf_free(data);
  return ERR_OK;
}

static void failed(void *argument, err_t error) {
  /* After a close in both directions lwIP reports ERR_CLSD. */
  if (argument != NULL) ((struct socket *)argument)->failed = error != ERR_CLSD;
}

static struct socket *attach(struct tcp_pcb *pcb) {
  struct socket *socket = calloc(1, sizeof *socket);
  sockets = realloc(sockets, (socket_count + 1) * sizeof(struct socket *));
  if (socket == NULL || sockets == NULL) abort();
  sockets[socket_count++] = socket;
  socket->pcb = pcb;
  tcp_arg(pcb, socket);
  tcp_ext_arg_set(pcb, 0, socket);
  tcp_ext_arg_set_callbacks(pcb, 0, &watch);
  tcp_recv(pcb, received);
  tcp_err(pcb, failed);
  if (!nagle) tcp_nagle_disable(pcb);
  if (keepalive_ms > 0) {
    ip_set_option(pcb, SOF_KEEPALIVE);
    pcb->keep_idle = keepalive_ms;
    pcb->keep_intvl = LWIP_MAX(keepalive_ms / 10, 1);
  }
  return socket;
}

static err_t accepted(void *argument, struct tcp_pcb *pcb, err_t error) {
  (void)argument;
  if (error != ERR_OK || pcb == NULL) return ERR_VAL;
  accepted_count++;
  add_number(&items, ACCEPTED, 1);
  add_number(&items, socket_count, 4);
  add_number(&items, pcb->local_port, 2);
  add(&items, &ip_2_ip4(&pcb->remote_ip)->addr, 4);
  add_number(&items, pcb->remote_port, 2);
  attach(pcb);
  return ERR_OK;
}

/* The application does not use the socket any more. */
static void release(struct socket *socket) {
  socket->released = 1;
  free(socket->held.at);
  socket->held = (struct bytes){0};
  socket->taken = 0;
  if (socket->pcb != NULL) {
    tcp_arg(socket->pcb, NULL);
    tcp_recv(socket->pcb, NULL);
    tcp_err(socket->pcb, NULL);
  }
}

static uint32_t write_data(struct socket *socket, const uint8_t *data, size_t len) {
  uint32_t taken = 0;
  struct tcp_pcb *pcb = socket->pcb;
  /* Before that lwIP would cut the data into segments of 536 bytes. */
  if (pcb == NULL || socket->shut || pcb->state < ESTABLISHED) return 0;
  size_t part = LARGEST_WINDOW;
  while (taken < len && part > 0) {
    part = LWIP_MIN(LWIP_MIN(len - taken, tcp_sndbuf(pcb)), part);
    /* Also the number of segments that wait is limited. */
    if (part > 0 && tcp_write(pcb, data + taken, (u16_t)part, TCP_WRITE_FLAG_COPY) == ERR_OK)
      taken += (uint32_t)part;
    else
      part /= 2;
  }
  tcp_output(pcb);
  return taken;
}

static size_t readable(const struct socket *socket) { return socket->held.len - socket->taken; }

static void read_data(struct socket *socket, size_t most) {
  size_t len = LWIP_MIN(most, readable(socket));
  add_number(&items, DATA, 1);
  add_number(&items, len, 4);
  add(&items, socket->held.at + socket->taken, len);
  socket->taken += len;
  if (readable(socket) == 0) socket->held.len = socket->taken = 0;
  while (len > 0 && socket->pcb != NULL) {
    u16_t part = (u16_t)LWIP_MIN(len, LARGEST_WINDOW);
    /* It may send a window update. */
    tcp_recved(socket->pcb, part);
    len -= part;
  }
}

static void status(struct socket *socket, uint8_t *told) {
  const struct tcp_pcb *pcb = socket->pcb;
  uint64_t unread = readable(socket), writable = 0;
  if (pcb == NULL)
    told[0] = CLOSED_FLAG | (socket->failed ? FAILED : 0);
  else {
    socket->established |= pcb->state >= ESTABLISHED;
    if ((pcb->state == ESTABLISHED || pcb->state == CLOSE_WAIT) && tcp_sndqueuelen(pcb) < TCP_SND_QUEUELEN)
      writable = tcp_sndbuf(pcb);
  }
  if (socket->established) told[0] |= ESTABLISHED_FLAG;
  if (socket->peer_closed && unread == 0) told[0] |= END_OF_STREAM;
  for (int i = 0; i < 4; i++) {
    told[1 + i] = (uint8_t)(unread >> (8 * i));
    told[5 + i] = (uint8_t)(writable >> (8 * i));
  }
  told[STATUS_LEN] = 1;
}

/* The retransmission timer: until when it runs, or what takes its place (docs/stacks.md). */
static uint64_t timer_of(const struct tcp_pcb *pcb) {
  if (pcb->persist_backoff > 0) return UINT64_MAX - 2;
  if (pcb->rtime < 0) return UINT64_MAX;
  int ticks = LWIP_MAX(pcb->rto - pcb->rtime, 1);
  /* Without a connection there are no ticks. */
  if (now_ns / NS_PER_MS > last_tick_ms + TCP_SLOW_INTERVAL) return UINT64_MAX - 1;
  return (last_tick_ms + (uint64_t)ticks * TCP_SLOW_INTERVAL) * NS_PER_MS;
}

static void show_state(uint32_t at, struct socket *socket) {
  static struct bytes state;
  const struct tcp_pcb *pcb = socket->pcb;
  if (pcb == NULL || pcb->state < ESTABLISHED || pcb->state == TIME_WAIT) return;
  const uint64_t tick = TCP_SLOW_INTERVAL * (uint64_t)NS_PER_MS;
  state.len = 0;
  add_number(&state, pcb->lastack, 4);
  add_number(&state, pcb->snd_nxt, 4);
  add_number(&state, pcb->snd_wnd, 4);
  add_number(&state, pcb->rcv_nxt, 4);
  add_number(&state, pcb->rcv_wnd, 4);
  add_number(&state, pcb->cwnd, 4);
  add_number(&state, pcb->ssthresh, 4);
  /* SRTT and RTO are counted in these ticks, too. */
  add_number(&state, (uint64_t)LWIP_MAX(pcb->sa >> 3, 0) * tick, 8);
  add_number(&state, (uint64_t)LWIP_MAX(pcb->rto, 0) * tick, 8);
  add_number(&state, timer_of(pcb), 8);
  if (memcmp(state.at, socket->shown, STATE_LEN) == 0) return;
  memcpy(socket->shown, state.at, STATE_LEN);
  add_number(&items, STATE, 1);
  add_number(&items, at, 4);
  add_number(&items, ALL_FIELDS, 2);
  add(&items, state.at, STATE_LEN);
}

/* Notes whether the timer of 500 ms has run at this time. */
static void note_tick(void) {
  static u32_t seen;
  if (tcp_ticks != seen) last_tick_ms = now_ns / NS_PER_MS;
  seen = tcp_ticks;
}

static void report_changes(void) {
  for (uint32_t at = 0; at < socket_count; at++) {
    uint8_t told[STATUS_LEN + 1] = {0};
    if (shows_state) show_state(at, sockets[at]);
    if (sockets[at]->released) continue;
    status(sockets[at], told);
    if (memcmp(told, sockets[at]->told, sizeof told) == 0) continue;
    memcpy(sockets[at]->told, told, sizeof told);
    changed_count++;
    changed_socket = at;
    add_number(&items, STATUS, 1);
    add_number(&items, at, 4);
    add(&items, told, STATUS_LEN);
  }
}

/* ---- requests ---- */

static void input(const uint8_t *packet, size_t len) {
  struct pbuf *arrived = pbuf_alloc(PBUF_RAW, (u16_t)len, PBUF_RAM);
  if (arrived == NULL || pbuf_take(arrived, packet, (u16_t)len) != ERR_OK) abort();
  if (device.input(arrived, &device) != ERR_OK) pbuf_free(arrived);
}

static void cannot(const char *what) {
  add_number(&items, ERROR_TEXT, 1);
  add_number(&items, strlen(what), 4);
  add(&items, what, strlen(what));
}

static void listen_at(u16_t port) {
  struct tcp_pcb *pcb = tcp_new();
  if (pcb == NULL || tcp_bind(pcb, IP_ADDR_ANY, port) != ERR_OK || (pcb = tcp_listen(pcb)) == NULL) {
    cannot("lwIP cannot listen at the port");
    return;
  }
  tcp_accept(pcb, accepted);
}

static uint32_t connect_to(u16_t port, const uint8_t *address, u16_t to_port) {
  ip_addr_t to;
  struct tcp_pcb *pcb = tcp_new();
  uint32_t id = socket_count;
  IP_ADDR4(&to, address[0], address[1], address[2], address[3]);
  if (pcb == NULL || tcp_bind(pcb, IP_ADDR_ANY, port) != ERR_OK) {
    cannot("lwIP cannot bind the port");
    return 0;
  }
  attach(pcb);
  /* tcp_connect sends a SYN with the number before the one that it asks for. */
  if (first_isn <= UINT32_MAX) first_isn = (u32_t)(first_isn + 1);
  if (tcp_connect(pcb, &to, to_port, NULL) != ERR_OK) cannot("lwIP cannot connect");
  return id;
}

static uint32_t of_socket(int kind, struct socket *socket, const uint8_t *rest, size_t len) {
  struct tcp_pcb *pcb = socket->pcb;
  switch (kind) {
  case WRITE:
    return write_data(socket, rest + 4, len - 4);
  case READ:
    read_data(socket, number(rest + 4, 4));
    break;
  case SHUTDOWN:
    socket->shut = 1;
    if (pcb != NULL) tcp_shutdown(pcb, 0, 1);
    break;
  case CLOSE:
    release(socket);
    if (pcb != NULL) tcp_close(pcb);
    break;
  default:
    release(socket);
    if (pcb != NULL) tcp_abort(pcb);
  }
  return 0;
}

static uint32_t perform(const uint8_t *content, size_t len) {
  const uint8_t *rest = content + HEAD;
  switch (content[0]) {
  case INPUT:
    input(rest, len - HEAD);
    return 0;
  case ADVANCE:
    return 0;
  case LISTEN_AT:
    listen_at((u16_t)number(rest, 2));
    return 0;
  case CONNECT:
    return connect_to((u16_t)number(rest, 2), rest + 2, (u16_t)number(rest + 6, 2));
  default: {
    uint32_t id = (uint32_t)number(rest, 4);
    if (id >= socket_count || sockets[id]->released) {
      cannot("the socket is not open");
      return 0;
    }
    return of_socket(content[0], sockets[id], rest, len - HEAD);
  }
  }
}

static uint64_t deadline(void) {
  u32_t sleep = sys_timeouts_sleeptime();
  return sleep == SYS_TIMEOUTS_SLEEPTIME_INFINITE ? UINT64_MAX : (now_ns / NS_PER_MS + sleep) * NS_PER_MS;
}

static void begin(char *settings) {
  ip4_addr_t own, mask, none;
  ip4_addr_set_zero(&own);
  ip4_addr_set_zero(&none);
  IP4_ADDR(&mask, 255, 0, 0, 0);
  for (char *line = strtok(settings, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    char *value = strchr(line, '=');
    if (value == NULL) continue;
    *value++ = 0;
    uint64_t numeric = strtoull(value, NULL, 10);
    if (!strcmp(line, "address")) ip4addr_aton(value, &own);
    if (!strcmp(line, "mtu")) tcpassay_mss = (unsigned)numeric - 40;
    if (!strcmp(line, "seed")) random_state = numeric;
    if (!strcmp(line, "send_buffer")) tcpassay_send_buffer = (unsigned)numeric;
    if (!strcmp(line, "receive_buffer")) tcpassay_window = (unsigned)numeric;
    if (!strcmp(line, "nagle")) nagle = (int)numeric;
    if (!strcmp(line, "state")) shows_state = (int)numeric;
    if (!strcmp(line, "isn")) first_isn = numeric;
    if (!strcmp(line, "keepalive_ns")) keepalive_ms = (uint32_t)LWIP_MAX(numeric / NS_PER_MS, 1);
  }
  while (tcpassay_window >> tcpassay_scale > LARGEST_WINDOW) tcpassay_scale++;
  lwip_init();
  /* A host that has run for some time: lwIP measures no round-trip time during its first tick. */
  tcp_ticks = 1 + tcpassay_random() % 100000;
  netif_add(&device, &own, &mask, &none, NULL, start_device, ip4_input);
  netif_set_default(&device);
  netif_set_up(&device);
  netif_set_link_up(&device);
}

/* Adds the answer to a request to `out`. */
static void perform_at(const uint8_t *content, size_t len, struct bytes *out) {
  items.len = accepted_count = changed_count = 0;
  now_ns = number(content + 1, 8);
  sys_check_timeouts();
  note_tick();
  uint32_t result = perform(content, len);
  report_changes();
  add_number(out, deadline(), 8);
  add_number(out, result, 4);
  add(out, items.at, items.len);
}

/* The length of the call in a request that the application does after the last one; 0 if it may do something else. */
static size_t applies(const uint8_t *content, size_t len) {
  if (len < HEAD + 4 || accepted_count > 0 || changed_count != 1 || number(content + HEAD, 4) != changed_socket) return 0;
  const uint8_t *told = sockets[changed_socket]->told;
  uint64_t unread = number(told + 1, 4), writable = number(told + 5, 4);
  if (told[0] & FAILED) return 0;
  if (content[0] == READ) return unread > 0 ? len : 0;
  return unread == 0 && writable > 0 && writable <= len - HEAD - 4 ? HEAD + 4 + writable : 0;
}

/* Adds the answers to the requests of a batch, as far as they apply, each with its length (docs/stacks.md). */
static void batch(const uint8_t *content, size_t len, struct bytes *out) {
  uint64_t due = UINT64_MAX;
  accepted_count = changed_count = 0;
  for (size_t at = HEAD; at + 4 + HEAD <= len;) {
    const uint8_t *one = content + at + 4;
    size_t size = number(content + at, 4), begin = out->len;
    uint64_t now = number(one + 1, 8);
    int is_call = one[0] == WRITE || one[0] == READ, changed = accepted_count + changed_count > 0;
    if (size < HEAD || size > len - at - 4) abort();
    at += 4 + size;
    if (due < now || (changed && !is_call)) return;
    if (is_call && changed && (size = applies(one, size)) == 0) return;
    add_number(out, 0, 4);
    if (is_call && !changed) continue;
    perform_at(one, size, out);
    due = LWIP_MAX(number(out->at + begin + 4, 8), now);
    for (int i = 0; i < 4; i++) out->at[begin + i] = (uint8_t)((out->len - begin - 4) >> (8 * i));
  }
}

int main(void) {
  struct bytes out = {0};
  size_t len;
  uint8_t *content = request(&len);
  char about[300];
  if (len < HEAD) abort();
  begin((char *)content + HEAD);
  int said = snprintf(about, sizeof about,
                      "name=lwip\nversion=%s, window scaling, SACK\ngranularity_ns=%d\n"
                      "options=send_buffer,receive_buffer,nagle,keepalive_ns,isn\nbatch=1\n"
                      "shows=snd_una,snd_nxt,snd_wnd,rcv_nxt,rcv_wnd,cwnd,ssthresh,srtt,rto,timer\n",
                      LWIP_VERSION_STRING, NS_PER_MS);
  add(&out, about, (size_t)said);
  answer(&out);
  for (;;) {
    content = request(&len);
    if (len < HEAD) abort();
    out.len = 0;
    if (content[0] == BATCH)
      batch(content, len, &out);
    else
      perform_at(content, len, &out);
    answer(&out);
  }
}
