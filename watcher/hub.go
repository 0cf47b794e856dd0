package watcher

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// RescanInterval is how often everything is looked at without a hint. It only
// catches what no hint was given for (see Notifier).
const RescanInterval = 5 * time.Minute

// HubOptions of NewHub.
type HubOptions struct {
	Catalog  *catalog.Catalog
	FS       vfs.FS
	Notifier Notifier // nil: NewNotifier with Poll; the Hub closes it in any case
	Poll     Poll
	Log      *zap.Logger // nil: nothing is logged
	Limits   jsonl.Options
	Rescan   time.Duration // 0 is RescanInterval, negative is never
}

// Hub gives subscribers what is new in their sessions, and what is new in the
// list. It is safe for concurrent use.
type Hub struct {
	sessions sessions
	o        HubOptions
	poll     atomic.Uint32      // a Poll
	ask      chan func(*router) // run on the routing goroutine
	again    chan struct{}      // one place: the roots are not what they were
	changed  chan catalog.Change
	watchers chan *listWatcher
	live     sync.Map // session.ID -> *feed; the router's to write
	done     chan struct{}
}

// NewHub makes a Hub; Run makes it work.
func NewHub(o HubOptions) *Hub {
	return newHub(rowsOf{o.Catalog}, o)
}

// sessions is what the Hub needs of the catalog.
type sessions interface {
	lookup(id session.ID) (session.Session, error)
	Format(agent string) (session.Format, bool)
	Roots() []catalog.StoreRoot
	OverlayDir() string
	Scan(ctx context.Context, progress func(catalog.Change)) (catalog.Change, error)
	Refresh(ctx context.Context, paths ...string) (catalog.Change, error)
}

type rowsOf struct{ *catalog.Catalog }

func (c rowsOf) lookup(id session.ID) (session.Session, error) {
	row, ok := c.Snapshot().Get(id)
	if !ok {
		return session.Session{}, &session.NotFoundError{What: "session", Name: id.String()}
	}
	return row.Session, nil
}

func newHub(c sessions, o HubOptions) *Hub {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Rescan == 0 {
		o.Rescan = RescanInterval
	}
	h := &Hub{
		sessions: c,
		o:        o,
		ask:      make(chan func(*router)),
		again:    make(chan struct{}, 1),
		changed:  make(chan catalog.Change),
		watchers: make(chan *listWatcher),
		done:     make(chan struct{}),
	}
	h.SetPoll(o.Poll)
	return h
}

// Run watches until ctx ends, and returns when all of its goroutines have
// ended. When the watches are in place it scans the catalog once, so that
// nothing is missed between a scan made before and the first hint. It is
// called once. The error says that there is no Notifier; what happens later is
// logged.
func (h *Hub) Run(ctx context.Context) error {
	defer close(h.done)
	n := h.o.Notifier
	if n == nil {
		var err error
		if n, err = NewNotifier(NotifierOptions{FS: h.o.FS, Poll: Poll(h.poll.Load()), Log: h.o.Log}); err != nil {
			return err
		}
	}
	r := newRouter(h, n)
	r.wg.Go(func() { newScout(h, n, r.found).run(ctx, r.places) })
	r.wg.Go(func() { h.refresh(ctx, r.rows) })
	r.wg.Go(func() { h.bulletin(ctx) })
	r.run(ctx)
	r.wg.Wait()
	return n.Close()
}

// RootsChanged tells the Hub that Catalog.Roots gives something else now.
func (h *Hub) RootsChanged() {
	select {
	case h.again <- struct{}{}:
	default:
	}
}

// Subscribe begins with the entries behind after: an entry id, or the decimal
// offset up to which the file was read ("" means all, "end" means none). The
// first Next returns at once with that state; it is a reset if after is not
// in the transcript, or if the conversation was rebuilt behind it. Nothing is
// lost or given twice between a read and a subscribe.
//
// It waits for Run. A session that the catalog does not know gives a
// *session.NotFoundError; see SubscribeFile for one whose file is still to be
// made.
func (h *Hub) Subscribe(ctx context.Context, id session.ID, after string) (*Subscription, error) {
	row, err := h.sessions.lookup(id)
	if err != nil {
		return nil, err
	}
	return h.SubscribeFile(ctx, row.ID, row.Path, after)
}

// SubscribeFile is Subscribe for a transcript at path, which need not exist
// yet, nor its directory.
func (h *Hub) SubscribeFile(ctx context.Context, id session.ID, path, after string) (*Subscription, error) {
	format, ok := h.sessions.Format(id.Agent)
	if !ok {
		return nil, &session.NotFoundError{What: "agent", Name: id.Agent}
	}
	f, err := h.hold(ctx, func(r *router) *feed { return r.open(id, path, format) })
	if err != nil {
		return nil, err
	}
	s := newSubscription(h.done, func() { h.release(f) })
	result := make(chan error, 1)
	select {
	case f.ask <- func() { result <- f.subscribe(s, after) }:
	case <-ctx.Done():
		s.Close()
		return nil, ctx.Err()
	case <-h.done:
		return nil, io.EOF
	}
	// The feed has the request; it answers unless the Hub ends.
	select {
	case err = <-result:
	case <-ctx.Done():
		err = ctx.Err()
	case <-h.done:
		err = io.EOF
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// hold runs get on the routing goroutine and counts the caller among those who
// need the feed it gives. Each hold is followed by a release.
func (h *Hub) hold(ctx context.Context, get func(*router) *feed) (*feed, error) {
	got := make(chan *feed, 1)
	select {
	case h.ask <- func(r *router) {
		f := get(r)
		if f != nil {
			f.refs++
		}
		got <- f
	}:
		return <-got, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-h.done:
		return nil, io.EOF
	}
}

func (h *Hub) release(f *feed) {
	select {
	case h.ask <- func(r *router) { r.release(f) }:
	case <-h.done:
	}
}

// Current gives the live transcript of a session that somebody subscribed to.
func (h *Hub) Current(id session.ID) (Update, bool) {
	v, ok := h.live.Load(id)
	if !ok {
		return Update{}, false
	}
	f, ok := v.(*feed)
	if !ok {
		return Update{}, false
	}
	u := f.now.Load()
	if u == nil {
		return Update{}, false
	}
	return *u, true
}

// Sync waits until the feed of id has published everything below offset, so
// that the answer to an append can follow the update of its own bytes. It
// returns at once where nobody subscribed to id, and where the file has come
// to be shorter than offset.
func (h *Hub) Sync(ctx context.Context, id session.ID, offset int64) error {
	return h.wait(ctx, id, offset, false)
}

// Settle is Sync, and then waits until every subscriber of id has taken the
// update and has come back for the next one (or has left). A subscriber that
// does not come back makes it wait until ctx ends.
func (h *Hub) Settle(ctx context.Context, id session.ID, offset int64) error {
	return h.wait(ctx, id, offset, true)
}

func (h *Hub) wait(ctx context.Context, id session.ID, offset int64, settle bool) error {
	if _, ok := h.live.Load(id); !ok {
		return nil
	}
	f, err := h.hold(ctx, func(r *router) *feed { return r.feeds[id] })
	if f == nil {
		return err
	}
	defer h.release(f)
	w := wait{offset: offset, settle: settle, reply: make(chan reached, 1)}
	var r reached
	select {
	case f.ask <- func() { f.sync(w) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-h.done:
		return io.EOF
	}
	select {
	case r = <-w.reply:
	case <-ctx.Done():
		return ctx.Err()
	case <-h.done:
		return io.EOF
	}
	for _, by := range r.by {
		select {
		case <-by.back:
		case <-by.left:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.done:
			return io.EOF
		}
	}
	return r.err
}

// SetPoll says how directories are watched; it counts before Run only.
func (h *Hub) SetPoll(p Poll) { h.poll.Store(uint32(p)) }
