package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/peer"
)

const (
	maxMetricsConns  = 16
	maxMetricsHeader = 8 << 10
	metricsReadTime  = 5 * time.Second  // for a request
	metricsWriteTime = 10 * time.Second // for its answer, from the request on
	metricsIdleTime  = 2 * time.Minute
	metricsFresh     = time.Second // for which all scrapes get the same text
)

// MetricsServer serves metrics and the checks of health over HTTP.
type MetricsServer struct {
	MetricsConfig
	listener net.Listener
	http     *http.Server
	guarded  bool // only programs of this host reach it

	mu   sync.Mutex // guards the rest; held while a text is made
	text []byte     // never changes once it is made
	at   time.Time  // when it was made
}

// MetricsConfig is what a [MetricsServer] serves, and to how many.
type MetricsConfig struct {
	ListFamilies   func(context.Context) []metrics.Family // measured when it is called
	CheckReadiness func(context.Context) []string
	MaxConns       int // that the process has descriptors for
	Log            *slog.Logger
}

// OpenMetrics opens the listener of metrics. It returns nil unless one is configured.
func OpenMetrics(ctx context.Context, cfg config.Metrics, c MetricsConfig) (*MetricsServer, error) {
	if cfg.Listen == "" {
		return nil, nil
	}
	l, err := listenForMetrics(ctx, cfg)
	if err != nil {
		return nil, err
	}
	patient := local.NewPatientListener(l, c.Log)
	s := &MetricsServer{MetricsConfig: c, listener: local.NewLimitListener(patient, min(maxMetricsConns, c.MaxConns), patient)}
	tcp, isTCP := l.Addr().(*net.TCPAddr)
	s.guarded = isTCP && tcp.IP.IsLoopback()
	if isTCP && !s.guarded {
		c.Log.Warn("other machines can read the metrics: metrics.expose in config.yaml", "addr", tcp)
	}
	s.http = &http.Server{
		Handler: s.newHandler(), MaxHeaderBytes: maxMetricsHeader,
		ReadHeaderTimeout: metricsReadTime, ReadTimeout: metricsReadTime, WriteTimeout: metricsWriteTime, IdleTimeout: metricsIdleTime,
		ErrorLog:  slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
		ConnState: local.RecordConnState,
	}
	return s, nil
}

// listenForMetrics opens the listener that the settings name.
func listenForMetrics(ctx context.Context, cfg config.Metrics) (net.Listener, error) {
	if !cfg.IsSocket() {
		l, err := (&net.ListenConfig{Control: peer.ListenEarly}).Listen(ctx, "tcp", cfg.Addr())
		if err != nil {
			return nil, ownwords.Errorf("metrics.listen: %w: choose another address in config.yaml", err)
		}
		return l, nil
	}
	// Another program may serve there: only what a killed daemon left is removed.
	c, err := new(net.Dialer).DialContext(ctx, "unix", cfg.Listen)
	if err == nil {
		c.Close()
		return nil, ownwords.Errorf("metrics.listen: another program serves %s: choose another path in config.yaml", cfg.Listen)
	}
	if len(cfg.Listen) > statedir.MaxSocketPath {
		return nil, ownwords.Errorf("metrics.listen: the path %s has %d bytes, and this system takes %d: choose a shorter one in config.yaml", cfg.Listen, len(cfg.Listen), statedir.MaxSocketPath)
	}
	l, err := local.OpenOwnerSocket(ctx, cfg.Listen)
	if errors.Is(err, syscall.ENOENT) {
		return nil, ownwords.Errorf("metrics.listen: %w: make its folder, or choose another path in config.yaml", err)
	}
	if err != nil {
		return nil, ownwords.Errorf("metrics.listen: %w", err)
	}
	return l, nil
}

// Run serves until ctx ends. It does nothing if s is nil.
func (s *MetricsServer) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	// An answer under way is given up: its reader asks again, and the daemon ends at once.
	defer context.AfterFunc(ctx, func() { s.http.Close() })()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return ownwords.Errorf("metrics: %w", err)
	}
	return nil
}

// newHandler returns the handler of all paths.
func (s *MetricsServer) newHandler() http.Handler {
	routes := map[string]http.HandlerFunc{
		"/metrics": s.serveMetrics,
		"/healthz": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") },
		"/readyz":  s.serveReadiness,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if status, why := s.checkRequest(r); status != 0 {
			h.Set("Connection", "close") // the body of the request is not read
			if status == http.StatusMethodNotAllowed {
				h.Set("Allow", "GET, HEAD")
			}
			http.Error(w, why, status)
			return
		}
		serve := routes[r.URL.Path]
		if serve == nil {
			http.Error(w, "not found: ask for /metrics, /healthz or /readyz", http.StatusNotFound)
			return
		}
		h.Set("Content-Type", "text/plain; charset=utf-8")
		serve(w, r)
	})
}

// checkRequest returns the status with which a request is refused, and why; 0 if it is not.
func (s *MetricsServer) checkRequest(r *http.Request) (status int, why string) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return http.StatusMethodNotAllowed, "only GET and HEAD are served here"
	case r.ContentLength != 0:
		return http.StatusRequestEntityTooLarge, "a request here has no body: send none"
	case s.guarded && !isAddrHost(r.Host):
		// A page in a browser on this machine may have a name of its own point here (DNS rebinding).
		return http.StatusMisdirectedRequest, "the Host of the request is a name: ask for 127.0.0.1"
	}
	return 0, ""
}

// isAddrHost reports whether a request's Host, which may be missing in HTTP/1.0, is an IP address
// or localhost, so that no name server has a say in where the request went.
func isAddrHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return host == "" || strings.EqualFold(host, "localhost") || err == nil
}

// serveReadiness answers whether the daemon is ready, or in one line what keeps it from that.
func (s *MetricsServer) serveReadiness(w http.ResponseWriter, r *http.Request) {
	unready := s.CheckReadiness(r.Context())
	if len(unready) == 0 {
		io.WriteString(w, "ready\n")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, "not ready: "+strings.Join(strings.Fields(strings.Join(unready, "; ")), " ")+"\n")
}

// serveMetrics answers a scrape.
func (s *MetricsServer) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(s.takeText()) // if that fails, nobody reads it
}

// takeText returns the text of all metrics. Scrapes that come within metricsFresh get the same one, so that many cost
// no more than one.
func (s *MetricsServer) takeText() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) < metricsFresh {
		return s.text
	}
	// Not with the context of one scrape: others wait for the text too.
	ctx, cancel := context.WithTimeout(context.Background(), metricsReadTime)
	defer cancel()
	s.text, s.at = metrics.AppendFamilies(make([]byte, 0, len(s.text)), s.ListFamilies(ctx)), time.Now()
	return s.text
}

// Addr returns where the metrics are served.
func (s *MetricsServer) Addr() net.Addr { return s.listener.Addr() }

// Close closes the listener.
func (s *MetricsServer) Close() error { return s.listener.Close() }
