package config_test

import (
	"fmt"

	"mooring/internal/config"
)

func ExampleParse() {
	_, err := config.Parse("mooring.yaml", []byte(`
listen:
  admin: 127.0.0.1
session:
  tll: 30m
  mode: firm
`))
	fmt.Println(err)

	c, err := config.Parse("mooring.yaml", []byte("session: {ttl: 1h}\nreplication: {publish: [v1]}\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Session.TTL, c.Session.Mode)
	for _, remark := range c.Remarks() {
		fmt.Println(remark)
	}
	// Output:
	// mooring.yaml:3: listen.admin: "127.0.0.1" has no port; add one, as in 127.0.0.1:9090
	// mooring.yaml:5: session.tll: is no key; did you mean ttl?
	// mooring.yaml:6: session.mode: is "firm"; it takes one of hard, soft
	// 1h0m0s hard
	// mooring.yaml:2: replication.publish: v2 is published whether it is listed or not
}
