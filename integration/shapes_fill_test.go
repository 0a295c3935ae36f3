package integration

import (
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// allFields returns a T whose fields are all set.
func allFields[T any]() *T {
	v := new(T)
	fill(reflect.ValueOf(v).Elem(), nil)
	return v
}

// set are the values of types that may not hold anything.
var set = map[reflect.Type]any{
	reflect.TypeFor[identity.ID]():             clitest.DeskID,
	reflect.TypeFor[wire.MessageID]():          clitest.SomeID,
	reflect.TypeFor[time.Time]():               time.Unix(1795000000, 0).UTC(),
	reflect.TypeFor[time.Duration]():           time.Second,
	reflect.TypeFor[wire.Payload]():            wire.Payload(`{"summary":"s","status":"completed","outcome":"o","progress":0.5,"data":{"n":1},"accepted":true,"question":"q","topic":"t"}`),
	reflect.TypeFor[jsontext.Value]():          jsontext.Value(`{"n":1}`),
	reflect.TypeFor[client.TaskState]():        client.TaskCompleted,
	reflect.TypeFor[client.PeerState]():        client.PeerConnected,
	reflect.TypeFor[client.TaskDirection]():    client.Given,
	reflect.TypeFor[client.MessageDirection](): client.In,
	reflect.TypeFor[kinds.Code]():              kinds.Overloaded,
}

// fill sets all that v holds. The types are those that v stands in, which are not filled again.
func fill(v reflect.Value, within []reflect.Type) {
	if value, ok := set[v.Type()]; ok {
		v.Set(reflect.ValueOf(value))
		return
	}
	if slices.Contains(within, v.Type()) {
		return
	}
	within = append(within, v.Type())
	switch v.Kind() {
	case reflect.Struct:
		for n := range v.NumField() {
			if v.Field(n).CanSet() && v.Type().Field(n).Name != "Next" { // there is no next page
				fill(v.Field(n), within)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), within)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), within)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, within)
		fill(value, within)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	}
}
