package openintent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkInside makes each of the largest requests that a peer's agent can make. The
// figures are for how long the writes of one held all other writes of the daemon up: the
// longest of each request, the median of the requests. The target is 5 ms.
func BenchmarkInside(b *testing.B) {
	var longest time.Duration
	h := start(b, toOthers, func(c *Config) {
		c.Inside = func(run func() error) error {
			began := time.Now()
			err := run()
			longest = max(longest, time.Since(began))
			return err
		}
	})
	in := h.intent("planner")
	far := h.from(desk, "worker")
	plain, logged := h.channel("planner", in, "plain"), h.channel("planner", in, "logged", obj{"options": obj{"audit": true}})
	many := make([]string, 16_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	large := "{" + strings.Join(many, ",") + "}"
	task := far.post("/tasks", obj{"intent_id": in, "name": "n"}).ok(201).id()
	version, taskVersion, n := 0, 0, 0
	deep := strings.Repeat("/a", maxSteps-1)
	for name, make := range map[string]func(){
		"state": func() {
			version++
			patch := fmt.Sprintf(`{"op":"set","path":%q,"value":%d}`, deep+"/x", version)
			if version == 1 {
				patch = fmt.Sprintf(`{"op":"set","path":%q,"value":%s}`, deep, large)
			}
			patches := patch + strings.Repeat(","+patch, maxEntries-1)
			if version == 1 {
				patches = patch
			}
			far.with("If-Match", fmt.Sprint(version)).post("/intents/"+in+"/state", `{"patches":[`+patches+`]}`).ok(200)
		},
		"message":        func() { far.post(plain+"/messages", `{"payload":`+large+`}`).ok(201) },
		"logged message": func() { far.post(logged+"/messages", `{"payload":`+large+`}`).ok(201) },
		"event": func() {
			far.post("/intents/"+in+"/events", `{"event_type":"comment","payload":`+large+`}`).ok(201)
		},
		"task": func() {
			taskVersion++
			far.with("If-Match", fmt.Sprint(taskVersion)).patch("/tasks/"+task, obj{"input": obj{"x": strings.Repeat("x", maxTask-2000)}}).ok(200)
		},
		"deleted channel": func() {
			n++
			ch := "/channels/" + far.post("/intents/"+in+"/channels", obj{"name": fmt.Sprint("d", n)}).ok(201).id()
			for range 10 {
				far.post(ch+"/messages", `{"payload":`+large+`}`).ok(201)
			}
			longest = 0
			far.do("DELETE", ch, nil).ok(200)
			for more := true; more; {
				var err error
				if more, err = h.e.sweepSome(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				longest = 0
				make()
				took = append(took, longest)
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "ms-inside")
			b.ReportMetric(0, "ns/op")
		})
	}
}
