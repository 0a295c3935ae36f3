package daemon

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

// maxProfileBytes bounds a profile. It lies in memory until its caller has read it.
const maxProfileBytes = 8 << 20

// usualProfileTime is how long a profile is measured that comes without a time.
const usualProfileTime = 10 * time.Second

// profiler takes profiles of this process, one at a time.
type profiler struct {
	taking sync.Mutex // held while a profile is taken

	mu   sync.Mutex  // guards what follows
	of   *local.Conn // who reads the last profile; nil: it was read
	data []byte      // of it
}

// servePprof takes a profile and returns its first part, or returns a further part of the last one.
func (d *Daemon) servePprof(ctx context.Context, s *local.Conn, p *client.PprofParams) (any, error) {
	if p.Offset > 0 {
		return d.profiler.readPart(s, p.Offset, d.maxProfilePart())
	}
	data, err := d.profiler.take(ctx, p)
	if err != nil {
		return nil, err
	}
	return d.profiler.keep(s, data, d.maxProfilePart()), nil
}

// maxProfilePart returns how many bytes of a profile one line holds in base64.
func (d *Daemon) maxProfilePart() int { return d.config.Load().MaxMessage / 4 * 3 }

// take takes a profile. It blocks while one is measured, until ctx ends.
func (x *profiler) take(ctx context.Context, p *client.PprofParams) ([]byte, error) {
	measured := slices.Contains(client.ListMeasuredProfiles(), p.Profile)
	most := uint64(client.MaxPprofTime.Seconds())
	switch {
	case !measured && !slices.Contains(client.ListStateProfiles(), p.Profile):
		return nil, kinds.Errorf(kinds.Invalid, "profile: %.64q: use %s", p.Profile, strings.Join(slices.Concat(client.ListMeasuredProfiles(), client.ListStateProfiles()), ", "))
	case !measured && p.Secs > 0:
		return nil, kinds.Errorf(kinds.Invalid, "secs: %s is what is there at one moment: leave it out", p.Profile)
	case p.Secs > most:
		return nil, kinds.Errorf(kinds.Invalid, "secs: %d: at most %d", p.Secs, most)
	case !x.taking.TryLock():
		return nil, kinds.Errorf(kinds.Overloaded, "debug.pprof: a profile is being taken, and there is one at a time: try again when it is done")
	}
	defer x.taking.Unlock()
	duration := usualProfileTime
	if p.Secs > 0 {
		duration = time.Duration(p.Secs) * time.Second
	}
	var out bytes.Buffer
	to := &boundedWriter{to: &out, left: maxProfileBytes}
	err := writeProfile(ctx, to, p.Profile, duration)
	switch {
	case ctx.Err() != nil:
		return nil, explainContextCause(context.Cause(ctx))
	case to.left < 0:
		return nil, kinds.Errorf(kinds.TooLarge, "debug.pprof: the profile has more than %d MiB: measure a shorter time", maxProfileBytes>>20)
	case err != nil:
		return nil, kinds.Errorf(kinds.Internal, "debug.pprof: %v: try again", err)
	}
	return out.Bytes(), nil
}

// writeProfile writes a profile in the format of pprof. It measures some for a time, or until ctx
// ends.
func writeProfile(ctx context.Context, to io.Writer, profile string, duration time.Duration) error {
	switch profile {
	case "cpu":
		if err := pprof.StartCPUProfile(to); err != nil {
			return err
		}
		pace.Sleep(ctx, duration)
		pprof.StopCPUProfile()
		return nil
	case "block":
		runtime.SetBlockProfileRate(int(time.Microsecond)) // on average one event in a microsecond of blocking
		pace.Sleep(ctx, duration)
		runtime.SetBlockProfileRate(0)
	case "mutex":
		runtime.SetMutexProfileFraction(1)
		pace.Sleep(ctx, duration)
		runtime.SetMutexProfileFraction(0)
	case "heap":
		runtime.GC() // so that it has what lives now
	}
	return pprof.Lookup(profile).WriteTo(to, 0)
}

// keep keeps a profile for its caller, and returns its first part.
func (x *profiler) keep(s *local.Conn, data []byte, most int) *client.Pprof {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.of, x.data = s, data
	return x.cutPart(0, most)
}

// readPart returns the part of a kept profile that begins at offset.
func (x *profiler) readPart(s *local.Conn, offset, most int) (*client.Pprof, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of != s || offset >= len(x.data) {
		return nil, kinds.Errorf(kinds.NotFound, "offset: this connection has no profile that continues there: take it again")
	}
	return x.cutPart(offset, most), nil
}

// cutPart returns a part of the kept profile, and drops the profile after the last one. The caller
// holds mu.
func (x *profiler) cutPart(offset, most int) *client.Pprof {
	part := &client.Pprof{Data: base64.StdEncoding.EncodeToString(x.data[offset:min(offset+most, len(x.data))]), Size: len(x.data), Next: offset + most}
	if part.Next >= len(x.data) {
		part.Next, x.of, x.data = 0, nil, nil
	}
	return part
}

// forget drops the profile that was kept for a connection.
func (x *profiler) forget(s *local.Conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == s {
		x.of, x.data = nil, nil
	}
}

// boundedWriter writes until there is no room left. left is then negative, and nothing more is
// written.
type boundedWriter struct {
	to   io.Writer
	left int
}

func (w *boundedWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		w.left = -1
		return 0, io.ErrShortWrite
	}
	return w.to.Write(b)
}
