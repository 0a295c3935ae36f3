package config

import (
	"cmp"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// maxShownValue bounds a value that is shown, in bytes.
const maxShownValue = 256

// renderValue returns the value of a setting as config.yaml may have it, on one line. It is
// "none" for a missing entry or list, and "default" for another setting that is not set. A value
// over maxShownValue is cut and ends with an ellipsis.
func renderValue(v reflect.Value) string {
	switch {
	case !v.IsValid() || v.Kind() == reflect.Slice && v.IsNil():
		return "none"
	case v.IsZero() && v.Kind() != reflect.Bool && v.Kind() != reflect.Struct:
		return "default"
	}
	text := renderFlow(v)
	if len(text) > maxShownValue {
		text = strings.ToValidUTF8(text[:maxShownValue], "") + " …"
	}
	return text
}

// renderFlow writes a value in the flow style of YAML, without the fields that are not set. It writes
// only the beginning of the hash of a key, as a weak key can be guessed from the whole hash. It writes
// nothing of a secret.
func renderFlow(v reflect.Value) string {
	if k, ok := v.Interface().(ChannelKey); ok {
		return fmt.Sprintf("{sha256: %.8s…, agent: %s}", k.SHA256, cmp.Or(k.Agent, "any"))
	}
	switch known := v.Interface().(type) {
	case Secret:
		return known.String()
	case Proxy:
		return known.describe()
	}
	switch v.Kind() {
	case reflect.String:
		return renderWord(v.String())
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			items = append(items, renderFlow(v.Index(i)))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Map:
		var items []string
		keys := v.MapKeys()
		sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
		for _, key := range keys {
			items = append(items, renderWord(key.String())+": "+renderFlow(v.MapIndex(key)))
		}
		return "{" + strings.Join(items, ", ") + "}"
	case reflect.Struct:
		var items []string
		for f, field := range v.Fields() {
			if !field.IsZero() {
				items = append(items, f.Tag.Get("yaml")+": "+renderFlow(field))
			}
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// renderWord writes a text, in quotes if it holds more than the usual characters.
func renderWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/:~-") == "" && s != "" {
		return s
	}
	return strconv.Quote(s)
}
