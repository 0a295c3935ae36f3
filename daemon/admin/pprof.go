package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
)

// ServePprof serves profiles of this process over HTTP on a socket until ctx ends. It does nothing if path is
// empty. Only the daemon's user can open the socket.
func ServePprof(ctx context.Context, path string) error {
	if path == "" {
		return nil
	}
	if c, err := net.Dial("unix", path); err == nil { // opening it would take it from whoever listens there
		c.Close()
		return ownwords.Errorf("--pprof: a program listens at %s: name a file of its own", path)
	}
	l, err := local.OpenOwnerSocket(ctx, path)
	if err != nil {
		return ownwords.Errorf("--pprof: %w: name a file in a folder of yours", err)
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /debug/pprof/profile", serveCPUProfile)
	routes.HandleFunc("GET /debug/pprof/{name}", serveProfile)
	server := &http.Server{Handler: routes, ReadHeaderTimeout: metricsReadTime}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return ownwords.Errorf("--pprof: %w: start acpd again", err)
	}
	return nil
}

// serveProfile answers with a profile of what there is now: in text if the query has debug=1.
func serveProfile(w http.ResponseWriter, r *http.Request) {
	profile := pprof.Lookup(r.PathValue("name"))
	if profile == nil {
		http.Error(w, "no such profile: ask for profile, goroutine, heap, allocs, block, mutex or threadcreate", http.StatusNotFound)
		return
	}
	debug, _ := strconv.Atoi(r.FormValue("debug"))
	profile.WriteTo(w, debug)
}

// serveCPUProfile measures for as many seconds as the query says, 30 if it does not, and answers with the profile.
func serveCPUProfile(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.FormValue("seconds"))
	if err != nil {
		seconds = 30
	}
	if err := pprof.StartCPUProfile(w); err != nil {
		http.Error(w, "a profile is being measured: try again later", http.StatusConflict)
		return
	}
	pace.Sleep(r.Context(), time.Duration(seconds)*time.Second)
	pprof.StopCPUProfile()
}
