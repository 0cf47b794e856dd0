package lsp

import (
	"context"
	"errors"
	"io"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/watcher"
)

// Bounds of session/update.
const (
	updateEntries = 200
	updateBytes   = 2 << 20
	// overrunBytes is how far a client may lag behind before it is told to
	// read again instead of getting all that it missed.
	overrunBytes = 32 << 20
)

// subscriber forwards the updates of one session to the client.
type subscriber struct {
	sub  *watcher.Subscription
	stop context.CancelFunc
	done chan struct{}
}

func (s *Server) subscribe(ctx context.Context, p wire.SubscribeParams) (any, error) {
	limit, err := maxBlock(p.MaxBlock)
	if err != nil {
		return nil, err
	}
	row, err := s.find(ctx, p.SessionID, "")
	if err != nil {
		return nil, err
	}
	first, err := s.follow(ctx, row, p.After, limit)
	if err != nil {
		return nil, err
	}
	return wire.SubscribeResult{Revision: string(first)}, nil
}

// follow subscribes to a session in place of an earlier subscription to it.
// The revision is that of the state from which updates begin.
func (s *Server) follow(ctx context.Context, row catalog.Row, after string, limit int) (session.Revision, error) {
	s.unfollow(row.ID)
	sub, err := s.o.Hub.SubscribeFile(ctx, row.ID, row.Path, after)
	if err != nil {
		return "", err
	}
	fctx, stop := context.WithCancel(s.base)
	first, err := sub.Next(ctx)
	if err != nil {
		stop()
		sub.Close()
		return "", err
	}
	sb := &subscriber{sub: sub, stop: stop, done: make(chan struct{})}
	s.mu.Lock()
	s.subs[row.ID] = sb
	s.mu.Unlock()
	s.tasks.Go(func() {
		defer close(sb.done)
		defer sub.Close()
		s.forward(fctx, sub, first, limit)
	})
	return first.Revision, nil
}

func (s *Server) unsubscribe(ctx context.Context, p wire.SessionParams) (any, error) {
	row, err := s.find(ctx, p.SessionID, "")
	if err != nil {
		return nil, err
	}
	s.unfollow(row.ID)
	return struct{}{}, nil
}

// unfollow ends a subscription and waits for its last message.
func (s *Server) unfollow(id session.ID) {
	s.mu.Lock()
	sb := s.subs[id]
	delete(s.subs, id)
	s.mu.Unlock()
	if sb != nil {
		sb.stop()
		<-sb.done
	}
}

// forward sends updates until the subscription ends. When the client does not
// read, Notify waits, later updates fold in the subscription, and nothing
// grows here.
func (s *Server) forward(ctx context.Context, sub *watcher.Subscription, u watcher.Update, limit int) {
	f := &forwarder{s: s, limit: limit}
	initial := true
	for {
		err := f.update(ctx, u, initial)
		initial = false
		switch {
		case err == nil:
		case errors.Is(err, io.ErrUnexpectedEOF):
			// The file shrank while it was read: the update that says so comes.
		default:
			if ctx.Err() == nil {
				s.o.Log.Debug("subscription ended", zap.String("session", u.ID.String()), zap.Error(err))
			}
			return
		}
		if u, err = sub.Next(ctx); err != nil {
			return
		}
	}
}

// forwarder is what the client has been told of one session.
type forwarder struct {
	s     *Server
	limit int
	open  []int // entries that it has which may still come to count
}

// lag is about how many bytes an update would send.
func (f *forwarder) lag(u watcher.Update) int64 {
	var n int64
	for _, e := range u.Transcript.Entries()[u.From:] {
		if e.Bad == "" {
			n += int64(min(e.Pos.Length, f.limit))
		}
	}
	return n
}

// update sends one update, in several messages where it is long.
func (f *forwarder) update(ctx context.Context, u watcher.Update, initial bool) error {
	key := u.ID.String()
	switch {
	case u.Removed:
		u.Reset, u.From = "removed", u.Transcript.Len()
	case u.Reset != "" && initial:
		// The client has nothing that could be wrong yet but what it read
		// before; it gets everything.
		u.From = 0
	case u.Reset != "":
		u.From = u.Transcript.Len()
	case !initial && f.lag(u) > overrunBytes:
		u.Reset, u.From = "overrun", u.Transcript.Len()
	}
	t := u.Transcript
	msg := wire.Update{SessionID: key, Revision: string(u.Revision), Session: f.s.wireLive(u), Entries: []wire.Entry{}, Reset: u.Reset}
	build := &entryBuilder{
		format: f.s.formatOf(u.ID), src: u.Source, t: t, why: t.Reason, names: names{t: t, live: true}, limit: f.limit,
	}
	if u.Reset != "" {
		f.open = nil
	}
	// Entries that came to count since (a tool call got its result) are sent
	// again, before the new ones.
	var again, open []int
	for _, i := range f.open {
		if t.Reason(i) == session.DanglingToolCall {
			open = append(open, i)
		} else {
			again = append(again, i)
		}
	}
	size := 0
	flush := func() error {
		err := f.s.conn.Notify(key, "session/update", msg)
		msg.Entries, msg.Reset, size = []wire.Entry{}, "", 0
		return err
	}
	send := func(i int) error {
		e, n, err := build.entry(i)
		if err != nil {
			return err
		}
		msg.Entries = append(msg.Entries, e)
		if size += n; size >= updateBytes || len(msg.Entries) >= updateEntries {
			if err := ctx.Err(); err != nil {
				return err
			}
			return flush()
		}
		return nil
	}
	for _, i := range again {
		if err := send(i); err != nil {
			return err
		}
	}
	for i := u.From; i < t.Len(); i++ {
		if t.Reason(i) == session.DanglingToolCall {
			open = append(open, i)
		}
		if err := send(i); err != nil {
			return err
		}
	}
	f.open = open
	if len(msg.Entries) > 0 || msg.Reset != "" {
		return flush()
	}
	return nil
}

// wireLive is the row of a session with what an update knows better.
func (s *Server) wireLive(u watcher.Update) wire.Session {
	row, ok := s.o.Catalog.Snapshot().Get(u.ID)
	if !ok {
		row.ID = u.ID
	}
	row.Revision, row.Size = u.Revision, u.Size
	entries := u.Transcript.Entries()
	if n := len(entries); n > 0 {
		row.Empty = false
		if t := entries[n-1].Time; t.After(row.UpdatedAt) {
			row.UpdatedAt = t
		}
	}
	return s.wire(row)
}

func (s *Server) formatOf(id session.ID) session.Format {
	f, _ := s.o.Catalog.Format(id.Agent)
	return f
}
