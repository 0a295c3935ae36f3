package harness

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// said is a turn, and who has begun it.
type said struct {
	ago   time.Duration // when it began
	ended bool          // a second later; else it runs
	first codexItem
}

// lastID counts the ids of turns.
var lastID atomic.Uint32

func (s said) turn(now time.Time) fakeTurn {
	began := now.Add(-s.ago)
	id := threadAt(began)
	t := fakeTurn{codexTurn{ID: fmt.Sprintf("%s%08x", id[:len(id)-8], lastID.Add(1)), Started: began.Unix()}, s.first}
	if s.ended {
		end := began.Add(time.Second).Unix()
		t.Ended = &end
	}
	return t
}

// The items with which turns of the user, of another thread's model and of the program itself begin, and one
// that is not there yet.
var (
	ofUser    = codexItem{Type: itemOfUser, ClientID: "38b314c7-d678-49da-8c75-91a1ab97659f"}
	ofModel   = codexItem{Type: itemOfTool, Namespace: codexTerminal}
	ofProgram = codexItem{Type: "enteredReviewMode"}
	ofNobody  = codexItem{}
)

// startBeside returns a fake with a thread that its terminal has had loaded now, beside one that its user
// has spoken in before, and the session of the new one.
func startBeside(t *testing.T, now time.Time, own codexThread) (f *fakeCodex, s *codex) {
	t.Helper()
	f = newFakeCodex(t)
	f.threads[1].ID = threadAt(now.Add(-2 * time.Hour))
	f.turns = map[string][]fakeTurn{f.threads[1].ID: {said{time.Hour, true, ofUser}.turn(now)}}
	own.Dir, own.Status = "/work", codexStatus{"idle"}
	f.threads = append(f.threads, own)
	f.shows = map[string]string{f.threads[1].ID: ownTerminal, own.ID: ownTerminal}
	s = f.mustFind().(*codex)
	s.loads.began = now
	s.NoteCall(map[string]any{"threadId": own.ID})
	return f, s
}

// The turns of a thread since it was loaded tell whether it works for another one's model. One that nobody
// has begun yet tells nothing, and one of before the thread was loaded, or was forked, neither.
func TestCodexThreadInTheBackground(t *testing.T) {
	const long = 10 * time.Minute
	runs := said{time.Second, false, ofUser}
	for name, test := range map[string]struct {
		made  time.Duration // how long ago
		fork  bool
		turns []said // the latest first
		other said   // in the other thread
		want  bool
	}{
		"fresh":                                 {},
		"fresh, beside a turn":                  {other: runs},
		"the user was quick":                    {turns: []said{{0, true, ofUser}}},
		"the user was quick, and the turn runs": {turns: []said{{0, false, ofUser}}},
		"the user was quick, beside a turn":     {turns: []said{{0, true, ofUser}}, other: runs},
		"a review":                              {turns: []said{{0, true, ofProgram}}},
		"a turn without an item yet":            {turns: []said{{0, false, ofNobody}}},
		"a model":                               {turns: []said{{0, true, ofModel}}, want: true},
		"a model, and the turn runs":            {turns: []said{{0, false, ofModel}}, want: true},
		"a model, then a review":                {turns: []said{{0, true, ofProgram}, {0, true, ofModel}}, want: true},
		"a model, then no item yet":             {turns: []said{{0, false, ofNobody}, {0, true, ofModel}}, want: true},
		"no item in a turn before":              {turns: []said{{0, true, ofModel}, {0, false, ofNobody}}, want: true},
		"a model, then the user":                {turns: []said{{0, true, ofUser}, {0, true, ofModel}}},
		"the user, then a model":                {turns: []said{{0, true, ofModel}, {0, true, ofUser}}},
		"the user before it was loaded":         {made: time.Hour, turns: []said{{long, true, ofUser}}},
		"a model before it was loaded":          {made: time.Hour, turns: []said{{long, true, ofModel}}},
		"the user before, a model since":        {made: time.Hour, turns: []said{{0, true, ofModel}, {long, true, ofUser}}, want: true},
		"the user's fork":                       {fork: true, turns: []said{{time.Second, true, ofUser}}},
		"the user's fork, after a turn":         {fork: true, other: said{5 * time.Second, true, ofUser}},
		"a model's fork":                        {fork: true, turns: []said{{time.Second, true, ofUser}}, other: runs, want: true},
		"a model's fork, then the user":         {fork: true, turns: []said{{0, true, ofUser}}, other: runs},
		"a fork of before it was loaded":        {made: time.Hour, fork: true, other: runs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			own := codexThread{ID: threadAt(now.Add(-test.made))}
			if test.fork {
				own.Fork = ownThread
			}
			f, s := startBeside(t, now, own)
			f.change(func() {
				for _, turn := range test.turns {
					f.turns[own.ID] = append(f.turns[own.ID], turn.turn(now))
				}
				if test.other != (said{}) {
					f.turns[f.threads[1].ID] = slices.Insert(f.turns[f.threads[1].ID], 0, test.other.turn(now))
				}
			})
			conn, err := s.connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.close()
			for range 2 { // a later look sees the same
				if view, err := s.look(t.Context(), conn, own.ID); err != nil || view.switched != test.want || (view.unseen != "") != test.want {
					t.Errorf("%+v, %v", view, err)
				}
			}
		})
	}
}

// Where Codex lists no items of a turn, what the user has said in it tells.
func TestCodexListsNoItems(t *testing.T) {
	for name, test := range map[string]struct {
		turn said
		want bool
	}{
		"the user": {said{0, true, ofUser}, false}, "a model": {said{0, true, ofModel}, true}, "a review": {said{0, true, ofProgram}, true},
		"the user, and the turn runs": {said{0, false, ofUser}, false}, "a turn without an item yet": {said{0, false, ofNobody}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			own := codexThread{ID: threadAt(now)}
			f, s := startBeside(t, now, own)
			f.change(func() {
				f.refuse["thread/items/list"] = `{"code":-32600,"message":"pagination is not supported"}`
				f.turns[own.ID] = []fakeTurn{test.turn.turn(now)}
			})
			conn, err := s.connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.close()
			if view, err := s.look(t.Context(), conn, own.ID); err != nil || view.switched != test.want {
				t.Errorf("%+v, %v", view, err)
			}
		})
	}
}

// A user who says something in a new thread before it is looked at first is there, and the thread is woken.
func TestCodexUserIsQuick(t *testing.T) {
	now := time.Now()
	own := codexThread{ID: threadAt(now)}
	f, s := startBeside(t, now, own)
	f.change(func() { f.turns[own.ID] = []fakeTurn{said{0, true, ofUser}.turn(now)} })
	expectPresence(t, f.watch(s), "", "")
	p := newPost()
	f.change(func() { f.after["turn/start"] = proof(own.ID, p.Message.String()) })
	if _, err := s.Post(t.Context(), p); err != nil || len(f.list("turn/start")) != 1 {
		t.Errorf("Post: %v", err)
	}
}

// A thread in which another one's model works is gone, and what wakes it although nobody is there changes
// nothing. When the user says something in it, it is there again.
func TestCodexUserComesToTheBackground(t *testing.T) {
	now := time.Now()
	own := codexThread{ID: threadAt(now)}
	f, s := startBeside(t, now, own)
	f.change(func() { f.turns[own.ID] = []fakeTurn{said{0, true, ofModel}.turn(now)} })
	presence := f.watch(s)
	const why = "another conversation works in it"
	expectPresence(t, presence, why, "")
	begin := func(first codexItem) {
		f.change(func() { f.turns[own.ID] = slices.Insert(f.turns[own.ID], 0, said{0, true, first}.turn(now)) })
		f.tell(`{"method":"thread/status/changed","params":{"threadId":"` + own.ID + `","status":{"type":"idle"}}}`)
	}
	post := func(unattended bool) error {
		p := newPost()
		p.Unattended = unattended
		f.change(func() { f.after["turn/start"] = proof(own.ID, p.Message.String()) })
		_, err := s.Post(t.Context(), p)
		if err == nil {
			begin(codexItem{Type: itemOfUser, ClientID: p.Message.String()})
		}
		return err
	}
	if err := post(true); err != nil {
		t.Errorf("Post, unattended allowed: %v", err)
	}
	if err := post(false); !errors.Is(err, ErrUnattended) || !strings.Contains(err.Error(), why) {
		t.Errorf("Post: %v", err)
	}
	begin(ofUser)
	expectPresence(t, presence, "", "")
	if err := post(false); err != nil {
		t.Errorf("Post when the user is there: %v", err)
	}
}
