package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/http/pprof"

	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/internal/ownwords"
)

// servePprof serves profiles of this process over HTTP until ctx ends, if the command line names a socket for them.
// Only the daemon's user can open the socket.
func (d *Daemon) servePprof(ctx context.Context) error {
	if d.options.Pprof == "" {
		return nil
	}
	l, err := local.OpenOwnerSocket(ctx, d.options.Pprof)
	if err != nil {
		return ownwords.Errorf("--pprof: %w: name a file in a folder of yours", err)
	}
	routes := http.NewServeMux()
	routes.HandleFunc("/debug/pprof/", pprof.Index)
	routes.HandleFunc("/debug/pprof/profile", pprof.Profile)
	routes.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: routes, ReadHeaderTimeout: metricsReadTime}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return ownwords.Errorf("--pprof: %w: start acpd again", err)
	}
	return nil
}
