package organisation

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
)

// logLines takes what a log writes, a line each.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// The log says once a day that this daemon's certificate is about to expire, from the last 14 days and
// the last third of its validity on; something else than before it says within a minute.
func TestOwnCertificateIsWarnedOfOnceADay(t *testing.T) {
	const day = 24 * time.Hour
	for name, is := range map[string]struct{ valid, silent time.Duration }{
		"of 90 days": {90 * day, 76 * day},
		"of 30 days": {30 * day, 20 * day},
		"of 3 days":  {3 * day, 2 * day},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := make(logLines, 100)
				s := newService(Deps{Log: slog.New(slog.NewTextHandler(log, nil))})
				show := func(valid time.Duration) {
					now := time.Now()
					s.own.Store(&ownCertificate{says: &identity.Certificate{NotBefore: now, NotAfter: now.Add(valid)}})
				}
				expect := func(when string, lines int) {
					t.Helper()
					synctest.Wait()
					var got []string
					for len(log) > 0 {
						got = append(got, <-log)
					}
					if len(got) != lines || lines != strings.Count(strings.Join(got, ""), "level=WARN msg=certificate") {
						t.Errorf("%s: %d lines, expected %d: %q", when, len(got), lines, got)
					}
				}
				show(is.valid)
				go func() { _ = s.watchOwnCertificate(t.Context()) }()
				time.Sleep(is.silent - time.Minute)
				expect("before it is near its end", 0)
				time.Sleep(5 * time.Minute)
				expect("when it is", 1)
				time.Sleep(day - 10*time.Minute)
				expect("less than a day later", 0)
				time.Sleep(10 * time.Minute)
				expect("a day later", 1)
				if is.valid > 3*day {
					time.Sleep(5 * day)
					expect("in five days", 5)
				}

				show(is.valid) // a new one
				s.changed.Set()
				expect("after a new one", 0)
				s.own.Store(&ownCertificate{says: &identity.Certificate{NotBefore: time.Now().Add(-2 * day), NotAfter: time.Now().Add(-day)}})
				s.changed.Set()
				expect("at the word that it has expired", 1)
			})
		})
	}
}
