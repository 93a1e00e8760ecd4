/** A form for a simple JSON Schema: an object of texts, numbers, choices and flags. */

import type { JsonValue } from "@portolan/client";

export interface Field {
  name: string;
  label: string;
  about: string;
  kind: "text" | "number" | "choice" | "flag";
  choices: string[];
  required: boolean;
}

type Fields = { [key in string]: JsonValue };
const isObject = (value: JsonValue | undefined): value is Fields =>
  value !== null && typeof value === "object" && !Array.isArray(value);
const words = (value: JsonValue | undefined): string => (typeof value === "string" ? value : "");

/** The fields, or null if the answer must be written as JSON. */
export function fieldsOf(schema: JsonValue | undefined): Field[] | null {
  if (!isObject(schema) || !isObject(schema["properties"])) return null;
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const fields: Field[] = [];
  for (const [name, property] of Object.entries(schema["properties"])) {
    if (!isObject(property)) return null;
    const choices = Array.isArray(property["enum"]) ? property["enum"].filter((each) => typeof each === "string") : [];
    const type = property["type"];
    const kind = choices.length ? "choice" : type === "boolean" ? "flag" : type === "number" || type === "integer" ? "number" : type === "string" ? "text" : null;
    if (!kind) return null;
    fields.push({
      name, kind, choices, required: required.includes(name),
      label: words(property["title"]) || name,
      about: words(property["description"]),
    });
  }
  return fields.length ? fields : null;
}

/** The values of the form in the schema's types, without empty fields. */
export function contentOf(fields: Field[], values: Record<string, string | boolean>): Fields {
  const content: Fields = {};
  for (const { name, kind } of fields) {
    const value = values[name];
    if (kind === "flag") content[name] = value === true;
    else if (typeof value === "string" && value !== "") content[name] = kind === "number" ? Number(value) : value;
    else if (typeof value === "number") content[name] = value;
  }
  return content;
}
